"""OffsetFetch: the committed offsets of groups. Kafka: KafkaApis.handleOffsetFetchRequest, KIP-709, KIP-447.

Up to version 7 a request names one group, from version 8 several, each in the shard of its own. The core
knows the form of version 8; an older request and its answer are translated. From version 10 topics are
named by their ids.
"""

from itertools import repeat
from uuid import UUID

import msgspec

from kohort.broker.group import OffsetFetch
from kohort.broker.handlers.gather import Gather
from kohort.broker.handlers.groups.family import GroupServices
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUPS_FROM = 8
NAMED_FEW = 1_000
"""So many partitions of one group are answered as they are named, once or more often."""
TOPIC_IDS_FROM = 10


def handle(
    groups: GroupServices, message: OffsetFetchRequest, request: Request
) -> OffsetFetchResponse | None:
    """Ask every group's shard; answered when all have answered, at once unless commits are in flight."""
    version = request.version
    named = tuple(message.groups) if version >= GROUPS_FROM else (one_group(message),)
    wanted = _each_once(named)
    if not wanted:
        return OffsetFetchResponse(groups=())

    def finish(found: tuple[OffsetFetchResponseGroup, ...]) -> None:
        for group in found:
            for topic in group.topics:
                groups.counters.offset_fetches += len(topic.partitions)
        if version < GROUPS_FROM:
            request.respond(old_form(found[0], wanted[0]))
        elif version < TOPIC_IDS_FROM:
            request.respond(OffsetFetchResponse(groups=found))
        else:
            request.respond(OffsetFetchResponse(groups=tuple(map(with_ids, repeat(groups), found, wanted))))

    metadata = groups.metadata.snapshot()
    gather = Gather(len(wanted), finish)
    for position, group in enumerate(wanted):
        try:
            shard = groups.shards.shard_of(group.group_id)
        except ApiError as error:
            gather.put(position, refused(group, error.code))
            continue
        asked = group if version < TOPIC_IDS_FROM else with_names(groups, group)
        request_id = shard.ask(request, gather.place(position))
        shard.submit(OffsetFetch(request_id, asked, message.require_stable, metadata))
    return None


def _each_once(asked: tuple[OffsetFetchRequestGroup, ...]) -> tuple[OffsetFetchRequestGroup, ...]:
    """Return the merged questions for each group: the same one, repeated a thousand times, is answered once.

    A partition of a group has up to 4 KiB of metadata in the answer, and takes four bytes in a request.
    """
    if len(asked) == 1:  # As nearly always.
        topics = asked[0].topics
        if not topics or (len(topics) == 1 and len(topics[0].partition_indexes) <= NAMED_FEW):
            return asked
        if sum([len(each.partition_indexes) for each in topics]) <= NAMED_FEW:
            return asked
    found: dict[str, dict[tuple[str, bytes], dict[int, None]] | None] = {}
    for each in asked:
        known = found.setdefault(each.group_id, {})
        if each.topics is None:
            found[each.group_id] = None
        elif known is not None:
            for topic in each.topics:
                known.setdefault((topic.name, topic.topic_id.bytes), {}).update(
                    dict.fromkeys(topic.partition_indexes)
                )
    first = {each.group_id: each for each in reversed(asked)}
    return tuple(
        msgspec.structs.replace(
            first[group_id],  # type: ignore[type-var]  # It is a struct: see `Message`.
            topics=None
            if topics is None
            else tuple(
                OffsetFetchRequestTopics(
                    name=name, topic_id=UUID(bytes=key), partition_indexes=tuple(indexes)
                )
                for (name, key), indexes in topics.items()
            ),
        )
        for group_id, topics in found.items()
    )


def one_group(message: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return an old request in the form of version 8."""
    topics = message.topics
    if topics is None:
        return OffsetFetchRequestGroup(group_id=message.group_id, topics=None)
    return OffsetFetchRequestGroup(
        group_id=message.group_id,
        topics=tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ),
    )


def refused(group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    """Return the answer of a group that cannot be asked: the code and no topics."""
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=(), error_code=code)


def with_names(groups: GroupServices, group: OffsetFetchRequestGroup) -> OffsetFetchRequestGroup:
    """Return the group with its topics' names, without unknown ids."""
    if group.topics is None:
        return group
    topics_by_id = groups.metadata.snapshot().topics_by_id
    return OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=tuple(
            OffsetFetchRequestTopics(
                name=topics_by_id[topic.topic_id].name,
                topic_id=topic.topic_id,
                partition_indexes=topic.partition_indexes,
            )
            for topic in group.topics
            if topic.topic_id in topics_by_id
        ),
    )


def with_ids(
    groups: GroupServices, answer: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    """Return the answer with topic ids; offsets of a deleted topic have no id."""
    snapshot = groups.metadata.snapshot()
    known = tuple(
        OffsetFetchResponseTopics(
            name=topic.name, topic_id=snapshot.topics[topic.name].topic_id, partitions=topic.partitions
        )
        for topic in answer.topics
        if topic.name in snapshot.topics
    )
    missing = (
        ()
        if answer.error_code
        else (
            unknown_topic(topic)
            for topic in asked.topics or ()
            if topic.topic_id not in snapshot.topics_by_id
        )
    )
    return OffsetFetchResponseGroup(
        group_id=answer.group_id, error_code=answer.error_code, topics=(*known, *missing)
    )


def unknown_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    """Return the answer for an unknown topic id."""
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=-1,
                committed_leader_epoch=-1,
                metadata="",
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
            for index in topic.partition_indexes
        ),
    )


def old_form(answer: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup) -> OffsetFetchResponse:
    """Return a group's answer in the form before version 8.

    An error of the group is repeated for every partition. Version 1 has no other place, and aiokafka,
    which uses version 3, checks only the partitions: without it a loading coordinator
    would seem to have no offsets.
    """
    topics = tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ),
        )
        for topic in answer.topics
    )
    if answer.error_code:
        topics = tuple(failed(topic, answer.error_code) for topic in asked.topics or ())
    return OffsetFetchResponse(topics=topics, error_code=answer.error_code)


def failed(topic: OffsetFetchRequestTopics, code: int) -> OffsetFetchResponseTopic:
    """Return the answer that gives every partition of `topic` the same code."""
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ),
    )
