"""StreamsGroupHeartbeat: all that a member of a streams group says. Kafka: KafkaApis, KIP-1071."""

from typing import Any

import msgspec

from kohort.broker.group import NO_REQUEST
from kohort.broker.group.streams.commands import StreamsGroupHeartbeat, heartbeat_error
from kohort.broker.group.streams.topology import Status
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.metadata import INTERNAL_TOPICS
from kohort.broker.metadata.topic_names import validate_topic_name
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatStatus,
    StreamsGroupHeartbeatTopology,
)
from kohort.protocol.schema import Message


def handle(groups: GroupServices, message: StreamsGroupHeartbeatRequest, request: Request) -> Message | None:
    """Submit the heartbeat with the current metadata; answered when its changes are durable.

    Topics that the group lacks are made after that.
    """
    if groups.internal_topics is None:
        return heartbeat_error(ErrorCode.UNSUPPORTED_VERSION)
    topics = groups.internal_topics
    if message.topology is not None:
        words = _wrong_names(message.topology)
        if words is not None:
            return heartbeat_error(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)

    def command(request_id: int) -> StreamsGroupHeartbeat:
        return StreamsGroupHeartbeat(
            request_id,
            message,
            request.version,
            request.client_id or "",
            request.client_host,
            groups.metadata.snapshot(),
        )

    def answer(response: Message) -> None:
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        codes = {each.status_code for each in response.status or ()}
        if response.error_code == ErrorCode.NONE and Status.MISSING_INTERNAL_TOPICS in codes:
            response = _with_words(response, topics.make(message.group_id, request.permissions.may_create))
        request.respond(response)

    try:
        shard = groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return command(NO_REQUEST).refused(error.code)
    shard.submit(command(shard.ask(request, answer)))
    return None


def _wrong_names(topology: StreamsGroupHeartbeatTopology) -> str | None:
    """Return the error in the names of topics, as text; None if they are valid."""
    names = dict.fromkeys(
        name
        for each in topology.subtopologies
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    )
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        return f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
    invalid = [name for name in names if not _is_valid(name)]
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else None


def _is_valid(name: str) -> bool:
    try:
        validate_topic_name(name)
    except ApiError:
        return False
    return True


def _with_words(response: Any, words: str) -> Any:
    """Return the answer with more details about the missing topics."""
    if not words:
        return response
    status = tuple(
        StreamsGroupHeartbeatStatus(
            status_code=each.status_code,
            status_detail=each.status_detail
            + (words if each.status_code == Status.MISSING_INTERNAL_TOPICS else ""),
        )
        for each in response.status
    )
    return msgspec.structs.replace(response, status=status)
