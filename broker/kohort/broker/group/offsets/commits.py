"""OffsetCommit and OffsetFetch: how far a group has read."""

from collections.abc import Mapping
from uuid import UUID

from kohort.broker.group.commands import OffsetCommit, OffsetFetch
from kohort.broker.group.decision import Decision, Record, Reply
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.metadata import Metadata
from kohort.broker.group.offsets.pending import PendingOffsets
from kohort.broker.group.turn import ShardState
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.schema import ZERO_UUID

VERSION_OF_GROUP_ID_NOT_FOUND = 9
NO_OFFSET = -1
TIMESTAMP_MAX = 2**63 - 1  # The limit of a record: a commit with a longer retention is kept forever.


def commit_offsets(groups: ShardState, command: OffsetCommit, now_ms: int) -> Decision:
    """Return the records and the answer; metadata that is too long fails its partition alone."""
    message = command.message
    group = groups.by_id.get(message.group_id)
    try:
        if group is not None:
            group.check_commit(message, command.version, now_ms)
        else:
            _check_simple(command)
    except ApiError as error:
        return Decision((), (Reply(command.request_id, commit_error(message, error.code)),))
    limit = groups.config.offset_metadata_max_bytes
    records: list[Record] = []
    topic_ids = command.topic_ids or [topic.topic_id for topic in message.topics]
    topics = tuple(
        [
            _commit_topic(records, message, topic, topic_id, limit, now_ms)
            for topic, topic_id in zip(message.topics, topic_ids, strict=True)
        ]
    )
    return Decision(
        tuple(records), (Reply(command.request_id, OffsetCommitResponse(throttle_time_ms=0, topics=topics)),)
    )


def commit_error(message: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Return the answer that fails every partition of the request with `code`."""
    return OffsetCommitResponse(
        throttle_time_ms=0,
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ),
            )
            for topic in message.topics
        ),
    )


def fetch_offsets(groups: ShardState, command: OffsetFetch, _now_ms: int) -> Decision:
    """Return the committed offsets of one group, -1 if there is none.

    The offsets have been flushed, since each answer is sent after the records before it. A request for stable
    offsets (KIP-447) gets UNSTABLE_OFFSET_COMMIT for offsets that an open transaction may change.
    """
    asked = command.group
    group = groups.by_id.get(asked.group_id)
    if group is not None:
        try:
            group.check_fetch(asked)
        except ApiError as error:
            refused = OffsetFetchResponseGroup(group_id=asked.group_id, topics=(), error_code=error.code)
            return Decision((), (Reply(command.request_id, refused),))
    if asked.topics is None:
        topics = _all_topics(group, command.metadata)
    else:
        topics = tuple([_fetch_topic(group, topic, command.metadata) for topic in asked.topics])
    if command.require_stable and groups.pending.holds_any(asked.group_id):
        topics = _without_unstable(groups.pending, asked.group_id, topics)
    response = OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)
    return Decision((), (Reply(command.request_id, response),))


def _check_simple(command: OffsetCommit) -> None:
    """Pass a simple commit where there is no such group; a member's needs one. Raises: ApiError."""
    if command.message.generation_id_or_member_epoch >= 0:
        has_code = command.version >= VERSION_OF_GROUP_ID_NOT_FOUND
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND if has_code else ErrorCode.ILLEGAL_GENERATION)


def _commit_topic(  # noqa: PLR0917  # A call for each topic of each commit.
    records: list[Record],
    message: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    topic_id: UUID,
    limit: int,
    now_ms: int,
) -> OffsetCommitResponseTopic:
    partitions = []
    for partition in topic.partitions:
        metadata = partition.committed_metadata
        if metadata is not None and len(metadata) > limit:
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            code = ErrorCode.NONE
            records.append(_offset_record(message, topic.name, topic_id, partition, now_ms))
        partitions.append(
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
        )
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=tuple(partitions))


def _offset_record(
    message: OffsetCommitRequest,
    topic: str,
    topic_id: UUID,
    partition: OffsetCommitRequestPartition,
    now_ms: int,
) -> Record:
    retention_ms = message.retention_time_ms
    return Record(
        OffsetCommitKey(group=message.group_id, topic=topic, partition=partition.partition_index),
        OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=now_ms,
            expire_timestamp=-1 if retention_ms < 0 else min(now_ms + retention_ms, TIMESTAMP_MAX),
            topic_id=topic_id,
        ),
    )


def _fetch_topic(
    group: AnyGroup | None, topic: OffsetFetchRequestTopics, metadata: Metadata | None
) -> OffsetFetchResponseTopics:
    offsets = {} if group is None else group.offsets.get(topic.name, {})
    current = None if metadata is None else metadata.topics.get(topic.name)
    topic_id = None if current is None else current.topic_id
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            [_fetched(index, offsets.get(index), topic_id) for index in topic.partition_indexes]
        ),
    )


def _all_topics(group: AnyGroup | None, metadata: Metadata | None) -> tuple[OffsetFetchResponseTopics, ...]:
    if group is None:
        return ()
    topics = []
    for name in group.offsets:
        offsets = offsets_of(group, name, metadata)
        if offsets:
            newest = max(offsets.values(), key=lambda value: value.commit_timestamp)
            partitions = tuple([_fetched(index, value, None) for index, value in offsets.items()])
            topics.append(
                OffsetFetchResponseTopics(name=name, topic_id=newest.topic_id, partitions=partitions)
            )
    return tuple(topics)


def offsets_of(group: AnyGroup, topic: str, metadata: Metadata | None) -> Mapping[int, OffsetCommitValue]:
    """Return the group's offsets of a topic, without those of an earlier topic of that name."""
    offsets = group.offsets.get(topic, {})
    current = None if metadata is None else metadata.topics.get(topic)
    if current is None:
        return offsets
    topic_id = current.topic_id
    return {index: value for index, value in offsets.items() if not _is_of_another(value, topic_id)}


def _is_of_another(value: OffsetCommitValue, topic_id: UUID) -> bool:
    """Return whether an offset is of an earlier topic of that name.

    An offset of an older version has no id, and belongs to any topic with the name.
    """
    return value.topic_id is not topic_id and value.topic_id not in (topic_id, ZERO_UUID)


def _without_unstable(
    pending: PendingOffsets, group_id: str, topics: tuple[OffsetFetchResponseTopics, ...]
) -> tuple[OffsetFetchResponseTopics, ...]:
    return tuple(
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetFetchResponsePartitions(
                    partition_index=each.partition_index,
                    committed_offset=NO_OFFSET,
                    metadata="",
                    error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
                )
                if pending.holds(group_id, topic.name, each.partition_index)
                else each
                for each in topic.partitions
            ),
        )
        for topic in topics
    )


def _fetched(
    index: int, value: OffsetCommitValue | None, topic_id: UUID | None
) -> OffsetFetchResponsePartitions:
    """Return the answer for a partition; with `topic_id` only if the offset is of that topic."""
    if value is None or (
        topic_id is not None and value.topic_id is not topic_id and _is_of_another(value, topic_id)
    ):
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=ErrorCode.NONE
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=ErrorCode.NONE,
    )
