"""Requests between brokers about share state (KIP-932).

A request names one group and many of its partitions; a command names one partition.
Source: Kafka's ShareCoordinatorService, PersisterStateManager.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from kohort.broker.runtime.other_brokers import OtherBrokers
from kohort.broker.share_state.commands import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    WriteState,
)
from kohort.broker.share_state.state import ShareKey
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStatePartition,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteShareGroupStateTopic,
    DeleteShareGroupStateTopicResult,
)
from kohort.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStatePartition,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeShareGroupStateTopic,
    InitializeShareGroupStateTopicResult,
)
from kohort.protocol.messages.read_share_group_state import (
    ReadShareGroupStatePartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateTopic,
    ReadShareGroupStateTopicResult,
)
from kohort.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryPartition,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadShareGroupStateSummaryTopic,
    ReadShareGroupStateSummaryTopicResult,
)
from kohort.protocol.messages.write_share_group_state import (
    WriteShareGroupStateBatch,
    WriteShareGroupStatePartition,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteShareGroupStateTopic,
    WriteShareGroupStateTopicResult,
)
from kohort.protocol.schema import Message
from kohort.protocol.share_state_log import ShareStateBatch


class Kind(NamedTuple):
    """One API: its messages, and a partition of a request as a command, both ways."""

    request: type[Any]
    topic: type[Any]
    response: type[Any]
    topic_result: type[Any]
    version: int
    """Of requests between brokers."""
    command: Callable[[int, ShareKey, Any], Any]
    """The command with that request id, of a partition of a request."""
    partition: Callable[[Any], Message]
    """A command's partition in a request."""

    def asking(self, group_id: str, commands: Sequence[Any]) -> Message:
        """Return the request of these commands, all of that group, each of another partition."""
        topics: dict[UUID, list[Message]] = {}
        for each in commands:
            topics.setdefault(each.key.topic_id, []).append(self.partition(each))
        request: Message = self.request(
            group_id=group_id,
            topics=tuple(
                self.topic(topic_id=topic_id, partitions=tuple(each)) for topic_id, each in topics.items()
            ),
        )
        return request

    @staticmethod
    def results(response: Any) -> dict[tuple[UUID, int], Message]:
        """Return the result of each partition, by topic id and index."""
        return {
            (topic.topic_id, each.partition): each for topic in response.results for each in topic.partitions
        }

    def answer(self, results: Sequence[tuple[UUID, Message]]) -> Message:
        """Return the answer with these results, each with its topic."""
        topics: dict[UUID, list[Message]] = {}
        for topic_id, each in results:
            topics.setdefault(topic_id, []).append(each)
        response: Message = self.response(
            results=tuple(
                self.topic_result(topic_id=topic_id, partitions=tuple(each))
                for topic_id, each in topics.items()
            )
        )
        return response


def _initialize(request_id: int, key: ShareKey, asked: InitializeShareGroupStatePartition) -> InitializeState:
    return InitializeState(request_id, key, asked.state_epoch, asked.start_offset)


def _initialized(command: InitializeState) -> Message:
    return InitializeShareGroupStatePartition(
        partition=command.key.partition, state_epoch=command.state_epoch, start_offset=command.start_offset
    )


def _read(request_id: int, key: ShareKey, asked: ReadShareGroupStatePartition) -> ReadState:
    return ReadState(request_id, key, asked.leader_epoch)


def _to_read(command: ReadState) -> Message:
    return ReadShareGroupStatePartition(partition=command.key.partition, leader_epoch=command.leader_epoch)


def _write(request_id: int, key: ShareKey, asked: WriteShareGroupStatePartition) -> WriteState:
    batches = tuple(
        ShareStateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.delivery_state,
            delivery_count=each.delivery_count,
        )
        for each in asked.state_batches
    )
    return WriteState(
        request_id,
        key,
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        asked.delivery_complete_count,
        batches,
    )


def _to_write(command: WriteState) -> Message:
    return WriteShareGroupStatePartition(
        partition=command.key.partition,
        state_epoch=command.state_epoch,
        leader_epoch=command.leader_epoch,
        start_offset=command.start_offset,
        delivery_complete_count=command.delivery_complete_count,
        state_batches=tuple(
            WriteShareGroupStateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in command.batches
        ),
    )


def _summary(request_id: int, key: ShareKey, asked: ReadShareGroupStateSummaryPartition) -> ReadSummary:
    return ReadSummary(request_id, key)


def _to_summarize(command: ReadSummary) -> Message:
    return ReadShareGroupStateSummaryPartition(partition=command.key.partition, leader_epoch=-1)


def _delete(request_id: int, key: ShareKey, asked: DeleteShareGroupStatePartition) -> DeleteState:
    return DeleteState(request_id, key)


def _to_delete(command: DeleteState) -> Message:
    return DeleteShareGroupStatePartition(partition=command.key.partition)


BY_COMMAND: Mapping[type, Kind] = {
    InitializeState: Kind(
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateTopic,
        InitializeShareGroupStateResponse,
        InitializeShareGroupStateTopicResult,
        0,
        _initialize,
        _initialized,
    ),
    ReadState: Kind(
        ReadShareGroupStateRequest,
        ReadShareGroupStateTopic,
        ReadShareGroupStateResponse,
        ReadShareGroupStateTopicResult,
        0,
        _read,
        _to_read,
    ),
    WriteState: Kind(
        WriteShareGroupStateRequest,
        WriteShareGroupStateTopic,
        WriteShareGroupStateResponse,
        WriteShareGroupStateTopicResult,
        1,
        _write,
        _to_write,
    ),
    ReadSummary: Kind(
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryTopic,
        ReadShareGroupStateSummaryResponse,
        ReadShareGroupStateSummaryTopicResult,
        1,
        _summary,
        _to_summarize,
    ),
    DeleteState: Kind(
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateTopic,
        DeleteShareGroupStateResponse,
        DeleteShareGroupStateTopicResult,
        0,
        _delete,
        _to_delete,
    ),
}
BY_REQUEST: Mapping[type, Kind] = {kind.request: kind for kind in BY_COMMAND.values()}


class AskOfGroup(msgspec.Struct, frozen=True):
    """How commands of one kind about one group are asked of the broker that coordinates them."""

    command_type: type
    group_id: str

    requests_max: int = 1
    fails_all: bool = True

    def named_as(self, command: Any) -> tuple[Hashable, Hashable]:
        """A request names a partition once."""
        return command.key, object()

    def refused(self, command: Any) -> Message:
        """Return the answer to a command that has none."""
        answer: Message = command.refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return answer

    async def ask(self, others: OtherBrokers, node_id: int, commands: Sequence[Any]) -> list[Message | None]:
        """Return the answer to each command. Raises: Unreachable."""
        kind = BY_COMMAND[self.command_type]
        request = kind.asking(self.group_id, commands)
        results = kind.results(await others.ask(node_id, request, kind.response, kind.version))
        return [results.get((each.key.topic_id, each.key.partition)) for each in commands]
