"""CreatePartitions: topics grow; they can't shrink."""

from collections import Counter

from kohort.broker.handlers.administration.family import Administration
from kohort.broker.metadata.topics import MorePartitions, Outcome, duplicate
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(
    admin: Administration, message: CreatePartitionsRequest, request: Request
) -> CreatePartitionsResponse:
    """Return the result for each topic."""
    counts = Counter(topic.name for topic in message.topics)
    wanted = [_more_partitions(topic) for topic in message.topics if counts[topic.name] == 1]
    outcomes = await admin.topics.add_partitions(wanted, validate_only=message.validate_only)
    outcomes |= {name: duplicate(f"topic {name}") for name, count in counts.items() if count > 1}
    return CreatePartitionsResponse(
        throttle_time_ms=0, results=tuple(_result(*each) for each in outcomes.items())
    )


def _more_partitions(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = topic.assignments
    return MorePartitions(
        topic.name,
        topic.count,
        None if assignments is None else tuple(each.broker_ids for each in assignments),
    )


def _result(name: str, outcome: Outcome) -> CreatePartitionsTopicResult:
    if isinstance(outcome, ApiError):
        return CreatePartitionsTopicResult(name=name, error_code=outcome.code, error_message=outcome.message)
    return CreatePartitionsTopicResult(name=name, error_code=ErrorCode.NONE)
