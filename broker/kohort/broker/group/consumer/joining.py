"""Joining members: new ones, returning static ones, and members that missed an answer."""

import msgspec

from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ConsumerMember
from kohort.broker.group.consumer.migrating import upgraded
from kohort.broker.group.consumer.reconciling import Owned
from kohort.broker.group.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from kohort.broker.group.consumer.sessions import forget_timers
from kohort.broker.group.epochs.members import AWAY, JOINING, fenced, unreleased
from kohort.broker.group.epochs.partitions import owns_only
from kohort.broker.group.events import StaticMemberReturned
from kohort.broker.group.metadata import Metadata
from kohort.broker.group.notes import fields_of
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

SMALL_BYTES = 1_024
"""A member with no more metadata is always accepted: it uses as much without any."""


class Joined(msgspec.Struct, frozen=True):
    """A member as it was before its heartbeat, and whose place it takes as a static one."""

    member: ConsumerMember
    replaced: ConsumerMember | None = None


def joining_group(turn: Turn, message: ConsumerGroupHeartbeatRequest, metadata: Metadata) -> ConsumerGroup:
    """Return the group that the member joins; a classic one becomes one where it may. Raises: ApiError."""
    group = turn.groups.find(message.group_id, ConsumerGroup)
    if group is not None:
        check_capacity(turn, group, message.member_id, message.instance_id)
        if message.instance_id is not None:
            _check_released(group, message.instance_id, message.member_id)
        return group
    classic = turn.groups.find(message.group_id, ClassicGroup)
    if classic is not None:
        return upgraded(turn, classic, metadata)
    if message.group_id in turn.groups.by_id:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} is not a consumer group.")
    return turn.new_group(message.group_id, ConsumerGroup)


def joined(turn: Turn, group: ConsumerGroup, message: ConsumerGroupHeartbeatRequest, fresh_id: str) -> Joined:
    """Return the joining member, with the stored state of a returning one."""
    member_id = message.member_id or fresh_id
    former = None if message.instance_id is None else group.static_member(message.instance_id)
    if former is None:
        known = group.members.get(member_id)
        if known is None:
            return Joined(ConsumerMember(member_id=member_id))
        check_epoch(known, message.member_epoch, message.topic_partitions)
        return Joined(known)
    return take_place(turn, group, former, member_id)


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """Check the member epoch; the previous one is valid after a lost answer. Raises: ApiError."""
    if epoch == member.epoch:
        return
    if epoch < member.epoch:
        has_missed_answer = (
            epoch == member.previous_epoch and owned is not None and owns_only(owned, member.assigned)
        )
        if has_missed_answer or epoch == JOINING:
            return
    raise fenced("consumer", member, epoch)


def check_capacity(turn: Turn, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Check the size of the group for a new member; a static member's successor passes. Raises: ApiError.

    As in Kafka since KAFKA-20601; `_check_released` checks later whether the instance id is free.
    """
    limit = turn.config.group_consumer_max_size
    if group.member_count < limit or member_id in group.members:
        return
    if instance_id is None or group.static_member(instance_id) is None:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )


def check_room(turn: Turn, group: ConsumerGroup | None, member_id: str, more_bytes: int) -> None:
    """Raises: ApiError GROUP_MAX_SIZE_REACHED where there is no room for the member's metadata."""
    if more_bytes <= SMALL_BYTES:
        return
    before = None if group is None else group.members.get(member_id)
    if not turn.has_room(group, more_bytes - (0 if before is None else before.metadata_bytes)):
        raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED, "There is no room for what the member brings.")


def _check_released(group: ConsumerGroup, instance_id: str, member_id: str) -> None:
    former = group.static_member(instance_id)
    if former is None or former.classic is not None:
        return
    if former.epoch != AWAY and former.member_id != member_id:
        raise unreleased(former, instance_id, member_id)


def take_place(turn: Turn, group: ConsumerGroup, former: ConsumerMember, member_id: str) -> Joined:
    """Give the new member the assignment and the target of the static member; the epoch stays."""
    group_id = group.group_id
    heir = msgspec.structs.replace(former, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    for record in member_tombstones(group_id, former.member_id):
        turn.log(record)
    turn.log(member_record(group_id, heir))
    turn.log(target_record(group_id, member_id, group.targets.get(former.member_id, {})))
    turn.log(current_record(group_id, heir))
    forget_timers(turn, group, former.member_id)
    turn.note(
        StaticMemberReturned(
            **fields_of(turn, group, heir), former_member_id=former.member_id, rebalances=False
        )
    )
    return Joined(heir, former)
