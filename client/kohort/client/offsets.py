"""Offsets over the network: committed ones, the ends of logs, and lookups by time."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID

from kohort.client.cluster import COORDINATOR_MOVED, Cluster
from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    KohortError,
    NetworkError,
    RebalanceInProgressError,
)
from kohort.client.request_parts import parts_of, parts_of_mapping
from kohort.client.values import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from kohort.protocol.schema import ZERO_UUID

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""The timestamps that ListOffsets takes for the ends of a log, and for its newest record."""

NAMES_IN_OFFSET_COMMIT = 9
NAMES_IN_OFFSET_FETCH = 9
"""The newest versions that name topics; later ones have their ids alone."""

_MOVED_ON = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
_OTHER_EPOCH = frozenset(
    {ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
)
_KAFKA_SAYS = {
    ErrorCode.UNKNOWN_MEMBER_ID: ", The coordinator is not aware of this member",
    ErrorCode.ILLEGAL_GENERATION: ", Specified group generation id is not valid",
}
"""The text of Kafka's clients, which people search for. Source: org.apache.kafka.common.protocol.Errors."""

Item = TypeVar("Item")
Value = TypeVar("Value")


class Answers(NamedTuple, Generic[Value]):
    """The results by partition: an error of one does not affect the others."""

    found: dict[TopicPartition, Value]
    errors: dict[TopicPartition, KohortError]

    def complete(self) -> dict[TopicPartition, Value]:
        """Return the results if nothing failed. Raises: the first KohortError."""
        for error in self.errors.values():
            raise error
        return self.found


class EpochMember(NamedTuple):
    """Requests offsets as a member of a consumer group: the answer is for its own epoch, or an error."""

    member_id: str
    epoch: int


def by_topic(
    partitions: Iterable[TopicPartition], make: Callable[[TopicPartition], Item]
) -> dict[str, tuple[Item, ...]]:
    """Return what `make` gives for each partition, in tuples by topic."""
    made: dict[str, list[Item]] = {}
    for each in sorted(partitions):
        made.setdefault(each.topic, []).append(make(each))
    return {topic: tuple(items) for topic, items in made.items()}


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation_id: int = -1,
    member_id: str = "",
    group_instance_id: str | None = None,
    topic_ids: Mapping[str, UUID] | None = None,
) -> None:
    """Commit once, without a retry; by the topics' ids if all are given, and the broker knows that.

    Many offsets are sent in several requests. Raises: CommitFailedError if the group has rebalanced, or the
    topic was recreated; BrokerError, which may be retriable.
    """
    for part in parts_of_mapping(offsets):
        await _commit_part(
            cluster,
            group_id,
            part,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=group_instance_id,
            ids=topic_ids or {},
        )


async def _commit_part(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    generation_id: int,
    member_id: str,
    group_instance_id: str | None,
    ids: Mapping[str, UUID],
) -> None:
    by_ids = all(each.topic in ids for each in offsets)

    def partition(each: TopicPartition) -> OffsetCommitRequestPartition:
        value = offsets[each]
        return OffsetCommitRequestPartition(
            partition_index=each.partition,
            committed_offset=value.offset,
            committed_leader_epoch=value.leader_epoch,
            committed_metadata=value.metadata,
        )

    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(name=topic, topic_id=ids.get(topic, ZERO_UUID), partitions=items)
            for topic, items in by_topic(offsets, partition).items()
        ),
    )
    response = await cluster.request_coordinator(
        group_id, request, OffsetCommitResponse, highest=None if by_ids else NAMES_IN_OFFSET_COMMIT
    )
    names = {topic_id: topic for topic, topic_id in ids.items()}
    codes = {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }
    refused = {each: code for each, code in codes.items() if code}
    if ErrorCode.UNKNOWN_TOPIC_ID in refused.values():
        await _check_remade(cluster, refused, ids)
    if refused:
        _refuse_commit(cluster, group_id, refused)
    for each in offsets:
        if each not in codes:
            raise _left_out(each)


async def _check_remade(
    cluster: Cluster, refused: Mapping[TopicPartition, int], ids: Mapping[str, UUID]
) -> None:
    """Return if it is the broker that does not know the topics yet. Raises: CommitFailedError."""
    unknown = tuple(each for each, code in refused.items() if code == ErrorCode.UNKNOWN_TOPIC_ID)
    await cluster.refresh_metadata({each.topic for each in unknown})
    topics = cluster.metadata.topics
    gone = tuple(
        each for each in unknown if each.topic not in topics or topics[each.topic].topic_id != ids[each.topic]
    )
    if gone:
        raise CommitFailedError(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"the offsets of {', '.join(map(str, gone))} were not committed: the topic was deleted since they"
            " were read, and perhaps made anew",
            gone,
        )


def _refuse_commit(cluster: Cluster, group_id: str, refused: Mapping[TopicPartition, int]) -> None:
    codes = set(refused.values())
    names = ", ".join(map(str, refused))
    if codes & COORDINATOR_MOVED:
        cluster.forget_coordinator(group_id)
    moved_on = codes & _MOVED_ON
    if moved_on:
        code = ErrorCode(min(moved_on))
        raise CommitFailedError(
            code,
            f"the offsets of {names} were not committed ({code.name}{_KAFKA_SAYS.get(code, '')}): group"
            f" {group_id!r} has rebalanced, and the partitions may have other owners now. Poll again to"
            " rejoin; if records take long to process, raise max_poll_interval_ms or lower max_poll_records",
            tuple(refused),
        )
    if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes:  # It was deleted: asking again does not bring it back.
        gone = tuple(each for each, code in refused.items() if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise CommitFailedError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"the offsets of {', '.join(map(str, gone))} were not committed: there is no such partition",
            gone,
        )
    raise BrokerError(min(codes), f"the offsets of {names} were not committed")


async def fetch_committed(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = False,
    member: EpochMember | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of these partitions, or with None of all; absent if there is none.

    Raises: BrokerError, RebalanceInProgressError, which may be retriable.
    """
    answers = await ask_committed(cluster, group_id, partitions, require_stable=require_stable, member=member)
    return answers.complete()


async def ask_committed(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = False,
    member: EpochMember | None = None,
) -> Answers[OffsetAndMetadata]:
    """Return the same with the errors of single partitions.

    With `require_stable`, offsets that a transaction is still to settle are a retriable error (KIP-447).
    Raises: BrokerError about the group, which may be retriable; RebalanceInProgressError where the `member`
    is in another epoch by now, or no member any more.
    """
    if partitions is None:
        return await _ask_part(cluster, group_id, None, require_stable=require_stable, member=member)
    answers = Answers[OffsetAndMetadata]({}, {})
    for part in tuple(parts_of(partitions)) or ((),):
        told = await _ask_part(cluster, group_id, part, require_stable=require_stable, member=member)
        answers.found.update(told.found)
        answers.errors.update(told.errors)
    return answers


async def _ask_part(
    cluster: Cluster,
    group_id: str,
    asked: tuple[TopicPartition, ...] | None,
    *,
    require_stable: bool,
    member: EpochMember | None,
) -> Answers[OffsetAndMetadata]:
    node = await cluster.coordinator(group_id)
    connection = await cluster.connection_to(node)
    version = connection.version_of(OffsetFetchRequest, NAMES_IN_OFFSET_FETCH)
    wanted = None if asked is None else by_topic(asked, lambda each: each.partition)
    if version >= 8:
        request = _offset_fetch(group_id, wanted, require_stable, member)
    else:
        request = _old_offset_fetch(group_id, wanted, require_stable and version >= 7)
    response = await cluster.request_coordinator(
        group_id, request, OffsetFetchResponse, highest=NAMES_IN_OFFSET_FETCH
    )
    answers, heard = Answers[OffsetAndMetadata]({}, {}), set[TopicPartition]()
    for group in response.groups:
        if member is not None and group.error_code in _OTHER_EPOCH:
            raise RebalanceInProgressError(f"group {group_id!r}: {ErrorCode(group.error_code).name}")
        cluster.check_coordinated(group_id, group.error_code)
        for topics in group.topics:
            _read_committed(topics.name, topics.partitions, answers, heard)
    cluster.check_coordinated(group_id, response.error_code)
    for topic in response.topics:
        _read_committed(topic.name, topic.partitions, answers, heard)
    for each in asked or ():
        if each not in heard:  # The answer does not say that there is no commit.
            answers.errors[each] = _left_out(each)
    return answers


def _offset_fetch(
    group_id: str,
    wanted: Mapping[str, tuple[int, ...]] | None,
    require_stable: bool,
    member: EpochMember | None,
) -> OffsetFetchRequest:
    topics = None
    if wanted is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=topic, topic_id=ZERO_UUID, partition_indexes=items)
            for topic, items in wanted.items()
        )
    return OffsetFetchRequest(
        group_id="",
        topics=(),
        groups=(
            OffsetFetchRequestGroup(
                group_id=group_id,
                topics=topics,
                member_id=None if member is None else member.member_id,
                member_epoch=-1 if member is None else member.epoch,
            ),
        ),
        require_stable=require_stable,
    )


def _old_offset_fetch(
    group_id: str, wanted: Mapping[str, tuple[int, ...]] | None, require_stable: bool
) -> OffsetFetchRequest:
    topics = None
    if wanted is not None:
        topics = tuple(
            OffsetFetchRequestTopic(name=topic, partition_indexes=items) for topic, items in wanted.items()
        )
    return OffsetFetchRequest(group_id=group_id, topics=topics, groups=(), require_stable=require_stable)


def _read_committed(
    topic: str,
    partitions: Iterable[OffsetFetchResponsePartition | OffsetFetchResponsePartitions],
    answers: Answers[OffsetAndMetadata],
    heard: set[TopicPartition],
) -> None:
    for each in partitions:
        partition = TopicPartition(topic, each.partition_index)
        heard.add(partition)
        if each.error_code:
            answers.errors[partition] = BrokerError(each.error_code, f"partition {partition}")
        elif each.committed_offset >= 0:
            answers.found[partition] = OffsetAndMetadata(
                each.committed_offset, each.metadata or "", each.committed_leader_epoch
            )


async def list_offsets(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], *, committed_only: bool = False
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the first offset at or after each timestamp (or LATEST, EARLIEST); -1 if there is none.

    With `committed_only`, LATEST is the last stable offset: the end for a read_committed consumer.

    Raises: BrokerError, which is retriable where the leader has moved: the metadata is then renewed.
    """
    missing = {each.topic for each in timestamps if each.topic not in cluster.metadata.topics}
    if missing:
        await cluster.refresh_metadata(missing)
    answers = Answers[OffsetAndTimestamp]({}, {})
    nodes: dict[int, dict[TopicPartition, int]] = {}
    for each, timestamp in timestamps.items():
        try:
            nodes.setdefault(cluster.leader(each).leader, {})[each] = timestamp
        except BrokerError as error:
            answers.errors[each] = error
    try:
        for node_id, wanted in nodes.items():
            told = await ask_offsets(cluster, node_id, wanted, committed_only=committed_only)
            answers.found.update(told.found)
            answers.errors.update(told.errors)
        return answers.complete()
    except KohortError as error:
        if error.retriable:
            await cluster.refresh_metadata({each.topic for each in timestamps})
        raise


async def ask_offsets(
    cluster: Cluster, node_id: int, timestamps: Mapping[TopicPartition, int], *, committed_only: bool
) -> Answers[OffsetAndTimestamp]:
    """Return the leader's results for these partitions. Raises: KohortError for all of them."""
    answers = Answers[OffsetAndTimestamp]({}, {})
    for part in parts_of_mapping(timestamps):
        told = await _ask_offsets_part(cluster, node_id, part, committed_only=committed_only)
        answers.found.update(told.found)
        answers.errors.update(told.errors)
    return answers


async def _ask_offsets_part(
    cluster: Cluster, node_id: int, timestamps: Mapping[TopicPartition, int], *, committed_only: bool
) -> Answers[OffsetAndTimestamp]:
    def leader_epoch(partition: TopicPartition) -> int:
        try:
            return cluster.leader(partition).leader_epoch
        except BrokerError:
            return -1  # It has just gone: the broker knows best.

    request = list_offsets_request(
        timestamps,
        leader_epoch,
        committed_only=committed_only,
        timeout_ms=cluster.config.request_timeout_ms,
    )
    response = await cluster.request(node_id, request, ListOffsetsResponse)
    answers = Answers[OffsetAndTimestamp]({}, {})
    for topic in response.topics:
        for answer in topic.partitions:
            partition = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code:
                answers.errors[partition] = BrokerError(answer.error_code, f"partition {partition}")
            else:
                answers.found[partition] = OffsetAndTimestamp(
                    answer.offset, answer.timestamp, answer.leader_epoch
                )
    for each in timestamps:
        if each not in answers.found and each not in answers.errors:
            answers.errors[each] = _left_out(each)
    return answers


def _left_out(partition: TopicPartition) -> NetworkError:
    return NetworkError(f"the broker's answer leaves {partition} out")


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int],
    leader_epoch: Callable[[TopicPartition], int],
    *,
    committed_only: bool,
    timeout_ms: int,
) -> ListOffsetsRequest:
    """Return the request to the leader of all these partitions; an epoch of -1 matches any leader."""

    def partition(each: TopicPartition) -> ListOffsetsPartition:
        return ListOffsetsPartition(
            partition_index=each.partition,
            current_leader_epoch=leader_epoch(each),
            timestamp=timestamps[each],
        )

    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed_only),
        topics=tuple(
            ListOffsetsTopic(name=topic, partitions=items)
            for topic, items in by_topic(timestamps, partition).items()
        ),
        timeout_ms=timeout_ms,
    )
