"""AlterShareGroupOffsets: sets the start offsets of an empty share group."""

from collections import defaultdict
from uuid import UUID

from kohort.broker.coordination.group_shards import GroupShard
from kohort.broker.coordination.shard import ShardState
from kohort.broker.group.share.commands import NOT_EMPTY, StartShareState
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.share_state.state import ShareKey
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kohort.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from kohort.protocol.messages.initialize_share_group_state import InitializeShareGroupStatePartitionResult
from kohort.protocol.schema import ZERO_UUID, Message

Codes = dict[ShareKey, ErrorCode]


def handle(
    sharing: ShareServices, message: AlterShareGroupOffsetsRequest, request: Request
) -> AlterShareGroupOffsetsResponse | None:
    """Initialize the partitions' states again; answered when they and the group are durable."""
    if not sharing.is_enabled:
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    if not message.group_id:
        return _refused(ErrorCode.INVALID_GROUP_ID)
    try:
        shard = sharing.groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return _refused(error.code)
    group = shard.core.find(message.group_id, ShareGroup)
    if group is None and message.group_id in shard.core.groups:
        return _refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} is not a share group.")
    if group is not None and not group.is_empty:
        return _refused(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY)
    _Altering(sharing, shard, group, message, request).begin()
    return None


class _Altering:
    """One running request."""

    def __init__(
        self,
        sharing: ShareServices,
        shard: GroupShard,
        group: ShareGroup | None,
        message: AlterShareGroupOffsetsRequest,
        request: Request,
    ) -> None:
        self._sharing = sharing
        self._shard = shard
        self._group_id = message.group_id
        self._message = message
        self._request = request
        self._snapshot = sharing.groups.metadata.snapshot()
        self._starts: dict[ShareKey, int] = {}
        for topic in message.topics:
            state = self._snapshot.topics.get(topic.topic_name)
            for each in topic.partitions:
                if state is not None and 0 <= each.partition_index < len(state.partitions):
                    key = ShareKey(self._group_id, state.topic_id, each.partition_index)
                    self._starts[key] = each.start_offset
        self._codes: Codes = {}

    def begin(self) -> None:
        """Initialize all possible states again."""
        if not self._starts:
            self._answer()
            return
        self._sharing.shares().when_kept(list(self._starts), self._begin_anew, self._request)

    def _begin_anew(self) -> None:
        if self._has_moved():
            return
        group = self._shard.core.find(self._group_id, ShareGroup)
        if group is not None and not group.is_empty:  # A member has joined meanwhile.
            self._request.respond(_refused(ErrorCode.NON_EMPTY_GROUP, NOT_EMPTY))
            return
        shares = self._sharing.shares()
        shares.partitions.end(self._starts)
        gather = Gather(len(self._starts), self._begun)
        for position, (key, start_offset) in enumerate(self._starts.items()):
            shares.states.begin_life(key, start_offset, gather.place(position))

    def _has_moved(self) -> bool:
        """Refuse the request if the group's shard does not serve any more: its core has no groups."""
        if self._shard.state is ShardState.ACTIVE:
            return False
        self._request.respond(_refused(ErrorCode.NOT_COORDINATOR))
        return True

    def _begun(self, answers: tuple[Message, ...]) -> None:
        begun: dict[UUID, set[int]] = defaultdict(set)
        for key, answer in zip(self._starts, answers, strict=True):
            assert isinstance(answer, InitializeShareGroupStatePartitionResult)
            self._codes[key] = ErrorCode(answer.error_code)
            if answer.error_code == ErrorCode.NONE:
                begun[key.topic_id].add(key.partition)
        if not begun:
            self._answer()
            return
        if self._has_moved():
            return
        partitions = {topic_id: frozenset(each) for topic_id, each in begun.items()}
        request_id = self._shard.ask(self._request, self._noted)
        self._shard.submit(StartShareState(request_id, self._group_id, partitions, self._snapshot))

    def _noted(self, answer: Message) -> None:
        assert isinstance(answer, DeleteShareGroupOffsetsResponse)
        if answer.error_code:
            self._request.respond(_refused(ErrorCode(answer.error_code), answer.error_message))
        else:
            self._answer()

    def _answer(self) -> None:
        responses = []
        for topic in self._message.topics:
            state = self._snapshot.topics.get(topic.topic_name)
            topic_id = ZERO_UUID if state is None else state.topic_id
            partitions = []
            for each in topic.partitions:
                key = ShareKey(self._group_id, topic_id, each.partition_index)
                code = self._codes.get(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                partitions.append(
                    AlterShareGroupOffsetsResponsePartition(
                        partition_index=each.partition_index,
                        error_code=code,
                        error_message=None if code is ErrorCode.NONE else code.name,
                    )
                )
            responses.append(
                AlterShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name, topic_id=topic_id, partitions=tuple(partitions)
                )
            )
        self._request.respond(
            AlterShareGroupOffsetsResponse(
                throttle_time_ms=0, error_code=ErrorCode.NONE, responses=tuple(responses)
            )
        )


def _refused(code: ErrorCode, message: str | None = None) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        throttle_time_ms=0, error_code=code, error_message=message, responses=()
    )
