"""DeleteShareGroupOffsets: topics of an empty share group, which are initialized again when they are read."""

from collections.abc import Mapping

from kohort.broker.group.share.group import ShareGroup
from kohort.broker.handlers.share.deleting import Codes, forget_topics
from kohort.broker.handlers.share.family import ShareServices
from kohort.broker.metadata import TopicState
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kohort.protocol.schema import ZERO_UUID


def handle(
    sharing: ShareServices, message: DeleteShareGroupOffsetsRequest, request: Request
) -> DeleteShareGroupOffsetsResponse | None:
    """Delete the state of the topics' partitions; answered when that is durable."""
    if not sharing.is_enabled:
        return _answer(ErrorCode.UNSUPPORTED_VERSION)
    if not message.group_id:
        return _answer(ErrorCode.INVALID_GROUP_ID)
    try:
        shard = sharing.groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return _answer(error.code)
    group = shard.core.find(message.group_id, ShareGroup)
    if group is None:
        words = "is not a share group" if message.group_id in shard.core.groups else "not found"
        return _answer(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} {words}.")
    topics = sharing.groups.metadata.snapshot().topics
    states = {each.topic_name: topics.get(each.topic_name) for each in message.topics}
    known = {state.topic_id for state in states.values() if state is not None}

    def finish(code: ErrorCode, words: str | None, codes: Codes) -> None:
        if code is not ErrorCode.NONE:
            request.respond(_answer(code, words))
        else:
            request.respond(_by_topic(states, codes))

    forget_topics(sharing.shares(), shard, group, known, request=request, finish=finish)
    return None


def _by_topic(states: Mapping[str, TopicState | None], codes: Codes) -> DeleteShareGroupOffsetsResponse:
    responses = []
    for name, state in states.items():
        of_topic = (
            [] if state is None else [code for key, code in codes.items() if key.topic_id == state.topic_id]
        )
        failed = next((code for code in of_topic if code is not ErrorCode.NONE), ErrorCode.NONE)
        words = None
        if state is None:
            failed, words = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        elif not of_topic:
            failed = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            words = "There is no offset information to delete."
        responses.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=ZERO_UUID if state is None else state.topic_id,
                error_code=failed,
                error_message=words,
            )
        )
    return DeleteShareGroupOffsetsResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, responses=tuple(responses)
    )


def _answer(code: ErrorCode, message: str | None = None) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        throttle_time_ms=0, error_code=code, error_message=message, responses=()
    )
