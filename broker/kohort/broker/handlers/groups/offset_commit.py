"""OffsetCommit: a group keeps how far it has read. Kafka: KafkaApis.handleOffsetCommitRequest.

A partition that does not exist fails alone, and the core gets the rest. From version 10 topics
are named by their ids (KIP-848). The log keeps the id and the name, for either form: an offset
does not count for another topic of that name, whichever broker coordinates the group by then.
"""

from collections.abc import Callable
from uuid import UUID

from kohort.broker.group import OffsetCommit
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.metadata import Snapshot
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.schema import ZERO_UUID, Message

TOPIC_IDS_FROM = 10


def handle(
    groups: GroupServices, message: OffsetCommitRequest, request: Request
) -> OffsetCommitResponse | None:
    """Pass on what names existing partitions; answered when it is durable."""
    try:
        shard = groups.shards.shard_of(message.group_id)
        shard.check_enough_replicas()
    except ApiError as error:
        return OffsetCommitResponse(topics=tuple(failed(topic, error.code) for topic in message.topics))
    by_id = request.version >= TOPIC_IDS_FROM
    snapshot = groups.metadata.snapshot()
    known, refused = split(snapshot, message.topics, by_id=by_id)
    if refused:
        if not known:
            return OffsetCommitResponse(topics=merged(refused, message.topics))
        respond: Callable[[Message], None] = _Joined(request, message.topics, refused).respond
    else:
        respond = request.respond
    for topic in known:
        groups.counters.offset_commits += len(topic.partitions)
    command = message if known is message.topics else with_topics(message, known)
    topic_ids = () if by_id else tuple([snapshot.topics[topic.name].topic_id for topic in known])
    shard.submit(OffsetCommit(shard.ask(request, respond), command, request.version, topic_ids))
    return None


def with_topics(
    message: OffsetCommitRequest, topics: tuple[OffsetCommitRequestTopic, ...]
) -> OffsetCommitRequest:
    """Return the same request for other topics."""
    return OffsetCommitRequest(
        group_id=message.group_id,
        generation_id_or_member_epoch=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        group_instance_id=message.group_instance_id,
        retention_time_ms=message.retention_time_ms,
        topics=topics,
    )


def split(
    snapshot: Snapshot, topics: tuple[OffsetCommitRequestTopic, ...], *, by_id: bool
) -> tuple[tuple[OffsetCommitRequestTopic, ...], list[OffsetCommitResponseTopic]]:
    """Return the existing part of the topics, and answers for the rest.

    Topics named by their ids have their names as well. Usually all of it exists, and the
    request is returned unchanged.
    """
    if not by_id and _all_exist(snapshot, topics):
        return topics, []
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in topics:
        state = snapshot.topics_by_id.get(topic.topic_id) if by_id else snapshot.topics.get(topic.name)
        if state is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused.append(failed(topic, unknown))
            continue
        count = len(state.partitions)
        partitions = topic.partitions
        if not all(0 <= each.partition_index < count for each in partitions):
            outside = tuple(each for each in partitions if not 0 <= each.partition_index < count)
            partitions = tuple(each for each in partitions if 0 <= each.partition_index < count)
            missing = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=outside)
            refused.append(failed(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if partitions:
            known.append(
                OffsetCommitRequestTopic(
                    name=state.name, topic_id=state.topic_id if by_id else ZERO_UUID, partitions=partitions
                )
            )
    return tuple(known), refused


def _all_exist(snapshot: Snapshot, topics: tuple[OffsetCommitRequestTopic, ...]) -> bool:
    for topic in topics:
        state = snapshot.topics.get(topic.name)
        if state is None:
            return False
        count = len(state.partitions)
        for partition in topic.partitions:  # A generator would cost as much as all the rest.
            if not 0 <= partition.partition_index < count:
                return False
    return True


def failed(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    """Return the answer that gives every partition of `topic` the same code."""
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ),
    )


def merged(
    answers: list[OffsetCommitResponseTopic], asked: tuple[OffsetCommitRequestTopic, ...]
) -> tuple[OffsetCommitResponseTopic, ...]:
    """Return the answers as one per topic, in the order in which topics and partitions were asked."""
    codes: dict[tuple[str, UUID], dict[int, int]] = {}
    for answer in answers:
        of_topic = codes.setdefault((answer.name, answer.topic_id), {})
        of_topic.update((each.partition_index, each.error_code) for each in answer.partitions)
    return tuple(
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetCommitResponsePartition(
                    partition_index=each.partition_index,
                    error_code=codes[topic.name, topic.topic_id][each.partition_index],
                )
                for each in topic.partitions
            ),
        )
        for topic in asked
    )


class _Joined:
    """Puts the core's answer and the refused partitions together."""

    def __init__(
        self,
        request: Request,
        asked: tuple[OffsetCommitRequestTopic, ...],
        refused: list[OffsetCommitResponseTopic],
    ) -> None:
        self._request = request
        self._asked = asked
        self._refused = refused

    def respond(self, message: Message) -> None:
        assert isinstance(message, OffsetCommitResponse)
        by_id = self._request.version >= TOPIC_IDS_FROM
        codes: list[OffsetCommitResponseTopic] = list(self._refused)
        for topic in message.topics:
            asked = next(
                each
                for each in self._asked
                if (each.topic_id == topic.topic_id if by_id else each.name == topic.name)
            )
            codes.append(
                OffsetCommitResponseTopic(
                    name=asked.name, topic_id=asked.topic_id, partitions=topic.partitions
                )
            )
        self._request.respond(OffsetCommitResponse(topics=merged(codes, self._asked)))
