"""DeleteTopics: topics go, by name or by id, with their records and the groups' offsets in them."""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata import Snapshot, TopicState
from kohort.broker.metadata.topics import Outcome, duplicate
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kohort.protocol.schema import ZERO_UUID


async def handle(
    admin: Administration, message: DeleteTopicsRequest, request: Request
) -> DeleteTopicsResponse:
    """Return the result for each topic; those named wrongly or twice stay."""
    states = message.topics or tuple(DeleteTopicState(name=name) for name in message.topic_names)
    if not admin.current.config.delete_topic_enable:
        return DeleteTopicsResponse(responses=tuple(_disabled(state, request.version) for state in states))
    refused, wanted = _split_valid(admin.metadata.snapshot(), states)
    outcomes = await admin.topics.delete(wanted)
    return DeleteTopicsResponse(responses=(*refused, *(_result(*each) for each in outcomes)))


def _disabled(state: DeleteTopicState, version: int) -> DeletableTopicResult:
    # Before version 3 clients do not know the code.
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    return _refusal(state, ApiError(code, "delete.topic.enable is false"))


def _refusal(state: DeleteTopicState, error: ApiError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=error.message
    )


def _split_valid(
    snapshot: Snapshot, states: Sequence[DeleteTopicState]
) -> tuple[list[DeletableTopicResult], list[str | UUID]]:
    """Return the errors of invalid topics, and the names and ids of the valid ones."""
    refused: list[DeletableTopicResult] = []
    wanted: list[str | UUID] = []
    counts = Counter(_identity(snapshot, state) for state in states)
    for state in dict.fromkeys(states):
        error = _mistake(state) or (duplicate("a topic") if counts[_identity(snapshot, state)] > 1 else None)
        if error is not None:
            refused.append(_refusal(state, error))
        else:
            wanted.append(state.topic_id if state.name is None else state.name)
    return refused, wanted


def _mistake(state: DeleteTopicState) -> ApiError | None:
    if state.name is None and state.topic_id == ZERO_UUID:
        return ApiError(ErrorCode.INVALID_REQUEST, "neither a name nor an id is given")
    if state.name is not None and state.topic_id != ZERO_UUID:
        return ApiError(ErrorCode.INVALID_REQUEST, "both a name and an id are given")
    return None


def _identity(snapshot: Snapshot, state: DeleteTopicState) -> UUID | str | None:
    """Return the same for a topic's name and for its id."""
    if _mistake(state) is not None or state.name is None:
        return state.topic_id
    topic = snapshot.topics.get(state.name)
    return state.name if topic is None else topic.topic_id


def _result(wanted: str | UUID, outcome: Outcome) -> DeletableTopicResult:
    if isinstance(outcome, TopicState):
        return DeletableTopicResult(name=outcome.name, topic_id=outcome.topic_id, error_code=ErrorCode.NONE)
    return DeletableTopicResult(
        name=None if isinstance(wanted, UUID) else wanted,
        topic_id=wanted if isinstance(wanted, UUID) else ZERO_UUID,
        error_code=outcome.code,
        error_message=outcome.message,
    )
