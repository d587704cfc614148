"""Joining members: new ones, returning static ones, and members that missed an answer."""

from typing import NamedTuple

import msgspec

from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.epochs.members import AWAY, JOINING, fenced, known_member, unreleased
from kohort.broker.group.epochs.sessions import forget_timers
from kohort.broker.group.events import StaticMemberReturned
from kohort.broker.group.notes import fields_of
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.streams.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from kohort.broker.group.streams.tasks import Tasks
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


class Joined(NamedTuple):
    """A member as its step finds it, and the static one whose place it takes."""

    member: StreamsMember
    replaced: StreamsMember | None = None


def joined_group(turn: Turn, message: StreamsGroupHeartbeatRequest) -> StreamsGroup:
    """Return the group that the member joins, possibly a new one. Raises: ApiError."""
    group_id = message.group_id
    group = turn.groups.find(group_id, StreamsGroup)
    if group is not None:
        _check_capacity(turn, group, message)
        return group
    classic = turn.groups.find(group_id, ClassicGroup)
    is_free = classic.is_empty and not classic.given_ids if classic else group_id not in turn.groups.by_id
    if is_free:
        return turn.new_group(group_id, StreamsGroup)
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def existing_group(turn: Turn, group_id: str) -> StreamsGroup:
    """Return the group of an existing member. Raises: ApiError GROUP_ID_NOT_FOUND."""
    if group_id not in turn.groups.by_id:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
    return turn.groups.existing(group_id, StreamsGroup)


def joined(group: StreamsGroup, message: StreamsGroupHeartbeatRequest) -> Joined:
    """Return the joining member, in epoch 0; a static one has its former tasks. Raises: ApiError."""
    former = None if message.instance_id is None else group.static_member(message.instance_id)
    if former is None:
        known = group.members.get(message.member_id)
        return Joined(StreamsMember(member_id=message.member_id) if known is None else known)
    if former.epoch != AWAY and former.member_id != message.member_id:
        raise unreleased(former, message.instance_id, message.member_id)
    heir = msgspec.structs.replace(former, member_id=message.member_id, epoch=JOINING, previous_epoch=JOINING)
    return Joined(heir, former)


def checked_member(
    group: StreamsGroup, message: StreamsGroupHeartbeatRequest, owned: Tasks | None
) -> StreamsMember:
    """Return the member, in its epoch or after a lost answer. Raises: ApiError."""
    member = known_member(group, message.member_id, message.instance_id)
    _check_epoch(member, message.member_epoch, owned)
    return member


def take_place(turn: Turn, group: StreamsGroup, start: Joined) -> None:
    """Give the new member the tasks and the target of the static member; the epoch stays."""
    heir, former = start
    assert former is not None
    group_id = group.group_id
    for record in member_tombstones(group_id, former.member_id):
        turn.log(record)
    turn.log(member_record(group_id, heir))
    turn.log(target_record(group_id, heir.member_id, group.target(former.member_id)))
    turn.log(current_record(group_id, heir))
    forget_timers(turn, group, former.member_id)
    turn.note(
        StaticMemberReturned(
            **fields_of(turn, group, heir), former_member_id=former.member_id, rebalances=False
        )
    )


def _check_capacity(turn: Turn, group: StreamsGroup, message: StreamsGroupHeartbeatRequest) -> None:
    """Check that the member is in the group, replaces one, or fits in. Raises: ApiError."""
    limit = turn.config.group_streams_max_size
    is_in = message.member_id in group.members or message.instance_id in group.instances
    if group.member_count >= limit and not is_in:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {limit} members.",
        )


def _check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Check the member epoch; the previous one is valid after a lost answer. Raises: ApiError."""
    if epoch == member.epoch:
        return
    if epoch < member.epoch:
        has_missed_answer = owned is not None and member.assigned.contains(owned)
        if epoch == member.previous_epoch and has_missed_answer:
            return
    raise fenced("streams", member, epoch)
