"""OffsetDelete: a group forgets offsets of topics that it does not read. Kafka: KIP-496."""

from kohort.broker.group import OffsetDelete
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kohort.protocol.schema import Message


def handle(
    groups: GroupServices, message: OffsetDeleteRequest, request: Request
) -> OffsetDeleteResponse | None:
    """Pass on what names existing partitions; the rest fails alone."""
    try:
        shard = groups.shards.shard_of(message.group_id)
    except ApiError as error:
        return OffsetDeleteResponse(throttle_time_ms=0, error_code=error.code, topics=())
    known: list[OffsetDeleteRequestTopic] = []
    unknown: list[OffsetDeleteResponseTopic] = []
    topics = groups.metadata.snapshot().topics
    for topic in message.topics:
        state = topics.get(topic.name)
        count = 0 if state is None else len(state.partitions)
        inside = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
        if inside:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=inside))
        if len(inside) < len(topic.partitions):
            unknown.append(_missing(topic.name, topic.partitions, count))

    def respond(answer: Message) -> None:
        assert isinstance(answer, OffsetDeleteResponse)
        request.respond(
            OffsetDeleteResponse(
                throttle_time_ms=0, error_code=answer.error_code, topics=_merged((*answer.topics, *unknown))
            )
            if unknown and not answer.error_code
            else answer
        )

    asked = OffsetDeleteRequest(group_id=message.group_id, topics=tuple(known))
    shard.submit(OffsetDelete(shard.ask(request, respond), asked))
    return None


def _missing(
    name: str, partitions: tuple[OffsetDeleteRequestPartition, ...], count: int
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=tuple(
            OffsetDeleteResponsePartition(
                partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for each in partitions
            if not 0 <= each.partition_index < count
        ),
    )


def _merged(topics: tuple[OffsetDeleteResponseTopic, ...]) -> tuple[OffsetDeleteResponseTopic, ...]:
    """Return one answer per topic."""
    by_name: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in topics:
        by_name.setdefault(topic.name, []).extend(topic.partitions)
    return tuple(
        OffsetDeleteResponseTopic(name=name, partitions=tuple(each)) for name, each in by_name.items()
    )
