"""A share group for people: acquired records, returned records with reasons, and what blocks an assignment.

Times are in milliseconds since 1970. `msgspec.json` writes and reads all of it.
"""

from enum import Enum

import msgspec

from kohort.broker.group.share.delivery_events import DeliveryEvent, Outcome, Reason
from kohort.broker.group.share.group import ShareGroup, ShareTopics
from kohort.broker.group.share.partition import SharePartition

RUNS_TOLD = 200


class HoldUpKind(Enum):
    """Why somebody is not given partitions."""

    NO_STATE_YET = "no_state_yet"
    """The share coordinator does not keep the partitions' state yet."""
    NO_SUCH_TOPIC = "no_such_topic"
    NOT_ASSIGNED_YET = "not_assigned_yet"
    """The group has changed since the last assignment."""
    MEMBER_BEHIND = "member_behind"
    """The member has not asked since there is a new assignment."""
    NOTHING_FOR_MEMBER = "nothing_for_member"


class HoldUp(msgspec.Struct, frozen=True):
    """What holds an assignment back, and which topic's or whose."""

    kind: HoldUpKind
    topic: str | None = None
    partitions: tuple[int, ...] = ()
    member_id: str | None = None
    last_seen_ms: int | None = None


class Held(msgspec.Struct, frozen=True):
    """Records beside each other in one member's hands, first and last included."""

    first_offset: int
    last_offset: int
    member_id: str
    delivery_count: int
    since_ms: int
    lock_until_ms: int


class Happened(msgspec.Struct, frozen=True):
    """What happened to records beside each other, first and last included."""

    at_ms: int
    outcome: Outcome
    reason: Reason | None
    member_id: str
    delivery_count: int
    first_offset: int
    last_offset: int


class PartitionExplained(msgspec.Struct, frozen=True, kw_only=True):
    """One share partition, as the leader of its partition has it."""

    topic: str
    partition: int
    start_offset: int | None
    """None until its state was read."""
    end_offset: int | None
    held_records: int = 0
    again_records: int = 0
    """How many wait that were handed out before."""
    letter_records: int = 0
    """How many are archived but for their dead letters."""
    held: tuple[Held, ...] = ()
    """The first `RUNS_TOLD` runs."""
    happened: tuple[Happened, ...] = ()


class GroupExplained(msgspec.Struct, frozen=True, kw_only=True):
    """The group, as its coordinator has it."""

    state: str
    epoch: int
    assignment_epoch: int
    members: int
    hold_ups: tuple[HoldUp, ...]


class Unanswered(msgspec.Struct, frozen=True):
    """A broker that has not answered."""

    broker: int
    reason: str


class ShareGroupExplained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One broker's knowledge of a share group, or that of all `brokers` of a cluster."""

    group_id: str
    broker_id: int
    group: GroupExplained | None
    """None where another broker coordinates it."""
    partitions: tuple[PartitionExplained, ...]
    """Those that this broker leads and somebody reads, or has read."""
    brokers: tuple[int, ...] = ()
    """The source of this, if one broker answers for its cluster."""
    unanswered: tuple[Unanswered, ...] = ()


def explain_group(group: ShareGroup) -> GroupExplained:
    """Return the state of the group."""
    return GroupExplained(
        state=group.state.value,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        members=group.member_count,
        hold_ups=hold_ups(group),
    )


def hold_ups(group: ShareGroup) -> tuple[HoldUp, ...]:
    """Return what blocks assignments; nothing if each member has its assignment."""
    found = [
        HoldUp(HoldUpKind.NO_STATE_YET, topic.name, tuple(sorted(topic.partitions)))
        for topic in sorted(group.initializing.values(), key=lambda each: each.name)
    ]
    known = _names(group.initializing) | _names(group.initialized)
    found += [HoldUp(HoldUpKind.NO_SUCH_TOPIC, name) for name in sorted(group.name_counts.keys() - known)]
    if not group.members:
        return tuple(found)
    if group.assignment_epoch < group.epoch:
        found.append(HoldUp(HoldUpKind.NOT_ASSIGNED_YET))
    for member_id, member in sorted(group.members.items()):
        session = group.sessions.get(member_id)
        seen_ms = None if session is None else session.last_seen_ms
        if member.epoch < group.assignment_epoch:
            found.append(HoldUp(HoldUpKind.MEMBER_BEHIND, member_id=member_id, last_seen_ms=seen_ms))
        elif not member.assigned:
            found.append(HoldUp(HoldUpKind.NOTHING_FOR_MEMBER, member_id=member_id, last_seen_ms=seen_ms))
    return tuple(found)


def _names(topics: ShareTopics) -> frozenset[str]:
    return frozenset(topic.name for topic in topics.values())


def explain_partition(
    topic: str, partition: int, core: SharePartition, ahead_ms: int, end_offset: int
) -> PartitionExplained:
    """Return the state of a share partition. `ahead_ms` is the difference of 1970's time and the core's."""
    standing = core.in_flight.standing(RUNS_TOLD)
    return PartitionExplained(
        topic=topic,
        partition=partition,
        start_offset=core.start_offset,
        end_offset=end_offset,
        held_records=standing.held_records,
        again_records=standing.again_records,
        letter_records=standing.letter_records,
        held=tuple(
            Held(
                each.first_offset,
                each.last_offset,
                each.member_id,
                each.delivery_count,
                each.since_ms + ahead_ms,
                each.lock_until_ms + ahead_ms,
            )
            for each in standing.held
        ),
        happened=tuple(happened(each, ahead_ms) for each in core.delivery_events),
    )


def happened(each: DeliveryEvent, ahead_ms: int) -> Happened:
    """Return a delivery event with its time since 1970."""
    return Happened(
        each.at_ms + ahead_ms,
        each.outcome,
        each.reason,
        each.member_id,
        each.delivery_count,
        each.first_offset,
        each.last_offset,
    )
