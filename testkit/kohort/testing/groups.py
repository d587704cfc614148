"""The broker's groups and records, for a test."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kohort.broker.broker import Broker
from kohort.broker.explain.events import RebalanceReport
from kohort.broker.explain.history import GroupRebalances
from kohort.broker.explain.views import GroupView, view_of
from kohort.broker.explain.words import duration, member_name
from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.events import Cause
from kohort.broker.group.group import AnyGroup as CoreGroup
from kohort.broker.group.views import MemberView
from kohort.protocol.records import BatchHeader, iterate_records, read_header


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One finished rebalance."""

    cause: str
    """Why it began, such as `a member left: rdkafka-4f2a91c0`."""
    further_causes: tuple[str, ...]
    outcome: str
    """How it ended: `stable`, `empty`, or `restarted`."""
    generation: int
    members: int
    moved: int
    """How many partitions have moved to another member."""
    report: RebalanceReport
    """The broker's full report."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group at the moment of the call."""

    group_id: str
    state: str
    """Kafka's name: `Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance`."""
    generation: int
    members: tuple[MemberView, ...]
    offsets: Mapping[tuple[str, int], int]
    """The committed offsets by topic and partition."""
    rebalances: tuple[Rebalance, ...]
    """The newest last."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record in the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def members_of(broker: Broker, group_id: str) -> tuple[str, ...]:
    """Return the ids of a group's members, the leader's first. Raises: KeyError if it has none."""
    group = broker.group_shards.find(group_id, ClassicGroup)
    if group is None or not group.members or group.leader is None:
        raise KeyError(f"group {group_id!r} has no members")
    return (group.leader, *(each for each in group.members if each != group.leader))


def group_view(broker: Broker, group_id: str) -> GroupView | None:
    """Return a group with its rebalances, or None if there is no such group."""
    group = broker.group_shards.group(group_id)
    if group is None:
        return None
    return view_of(group, broker.group_shards.rebalances(group_id), broker.clock.now_ms())


async def ends_of(broker: Broker) -> dict[str, dict[int, int]]:
    """Return each topic's end offsets by partition: behind what a read_committed consumer reads."""
    found: dict[str, dict[int, int]] = {}
    for each in list(broker.partitions):
        partition = await broker.partitions.opened(each.topic, each.index)
        found.setdefault(each.topic, {})[each.index] = partition.last_stable_offset
    return found


def groups_of(broker: Broker) -> dict[str, Group]:
    """Return every group by its id."""
    now_ms = broker.clock.now_ms()
    shards = broker.group_shards
    return {each.group_id: _group(each, shards.rebalances(each.group_id), now_ms) for each in shards.groups()}


def _group(group: CoreGroup, rebalances: GroupRebalances, now_ms: int) -> Group:
    view = view_of(group, rebalances, now_ms)
    return Group(
        group_id=view.group_id,
        state=view.state,
        generation=view.generation_id,
        members=view.members,
        offsets={
            (topic, index): value.offset
            for topic, partitions in group.offsets.items()
            for index, value in partitions.items()
        },
        rebalances=tuple(_rebalance(each) for each in view.history),
    )


def _rebalance(report: RebalanceReport) -> Rebalance:
    return Rebalance(
        cause=describe_cause(report.cause),
        further_causes=tuple(describe_cause(each) for each in report.further_causes),
        outcome=report.outcome.value,
        generation=report.generation_id,
        members=report.members,
        moved=len(report.moves),
        report=report,
    )


def describe_cause(cause: Cause) -> str:
    """Return why a rebalance began: the event, the member, and the client's reason."""
    text = cause.kind.value
    if cause.member_id:
        text += f": {cause.group_instance_id or member_name(cause.member_id)}"
    if cause.after_ms:
        text += f", not heard of for {duration(cause.after_ms)}"
    if cause.connection_closed_ms:
        text += f", its connection closed for {duration(cause.connection_closed_ms)}"
    return f"{text} ({cause.reason})" if cause.reason else text


async def records_of(broker: Broker, topic: str, *, committed: bool) -> tuple[Record, ...]:
    """Return every record that a consumer of the topic could read, partition by partition.

    With `committed`, records of aborted and of open transactions are excluded, as for read_committed.

    Raises: KeyError for an unknown topic, StorageError if its log cannot be read.
    """
    partitions = broker.partitions.of_topic(topic)
    if not partitions:
        raise KeyError(topic)
    found: list[Record] = []
    for each in partitions:
        partition = await broker.partitions.opened(topic, each.index)
        log, start = partition.log, partition.log.log_start_offset
        end = partition.last_stable_offset if committed else partition.high_watermark
        aborted = [
            (each.producer_id, range(each.first_offset, each.last_offset + 1))
            for each in (log.aborted_from(start, end) if committed else ())
        ]
        for batch in log.read_batches(start):
            header = read_header(batch)
            if header.is_control or _is_aborted(header, aborted):
                continue
            found += (
                Record(
                    topic,
                    each.index,
                    *(record.offset, record.timestamp, record.key, record.value, record.headers),
                )
                for record in iterate_records(batch)
                if start <= record.offset < end
            )
    return tuple(found)


def _is_aborted(header: BatchHeader, aborted: Iterable[tuple[int, range]]) -> bool:
    offset, producer_id = header.base_offset, header.producer_id
    return header.is_transactional and any(
        each == producer_id and offset in offsets for each, offsets in aborted
    )
