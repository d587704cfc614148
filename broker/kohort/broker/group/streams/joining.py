"""Who joins: a new member, a static one that comes back, or one that missed an answer."""

from typing import NamedTuple

import msgspec

from kohort.broker.group.epochs.members import check_static, fenced, unreleased
from kohort.broker.group.events import StaticMemberReturned
from kohort.broker.group.group import CLASSIC
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import AWAY, JOINING, StreamsMember
from kohort.broker.group.streams.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from kohort.broker.group.streams.sessions import forget_timers
from kohort.broker.group.streams.tasks import Tasks
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


class Joined(NamedTuple):
    """A member as its step finds it, and the static one whose place it takes."""

    member: StreamsMember
    replaced: StreamsMember | None = None


def joined_group(turn: Turn, message: StreamsGroupHeartbeatRequest) -> StreamsGroup:
    """Return the group that the member joins, a new one that nobody knows yet. Raises: ApiError."""
    group = turn.groups.by_id.get(message.group_id)
    if isinstance(group, StreamsGroup):
        _check_capacity(turn, group, message)
        return group
    if group is None or (group.group_type == CLASSIC and group.is_empty and not group.pending_members):
        return StreamsGroup(message.group_id, turn.groups.shard_bytes)
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} is not a streams group.")


def existing_group(turn: Turn, group_id: str) -> StreamsGroup:
    """Return the group of somebody who is a member. Raises: ApiError GROUP_ID_NOT_FOUND."""
    group = turn.groups.by_id.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


def joined(group: StreamsGroup, message: StreamsGroupHeartbeatRequest) -> Joined:
    """Return who joins, in epoch 0; a static member has what it had before. Raises: ApiError."""
    former = None if message.instance_id is None else group.static_member(message.instance_id)
    if former is None:
        known = group.streams_members.get(message.member_id)
        return Joined(StreamsMember(member_id=message.member_id) if known is None else known)
    if former.epoch != AWAY and former.member_id != message.member_id:
        raise unreleased(former, message.instance_id, message.member_id)
    heir = msgspec.structs.replace(former, member_id=message.member_id, epoch=JOINING, previous_epoch=JOINING)
    return Joined(heir, former)


def known_member(
    group: StreamsGroup, message: StreamsGroupHeartbeatRequest, owned: Tasks | None
) -> StreamsMember:
    """Return the member, in its epoch or after a lost answer. Raises: ApiError."""
    if message.instance_id is None:
        member = group.streams_member(message.member_id)
    else:
        member = check_static(group, message.instance_id, message.member_id)
    _check_epoch(member, message.member_epoch, owned)
    return member


def take_place(turn: Turn, group: StreamsGroup, start: Joined) -> None:
    """Let the newcomer have what the static member had and shall have; nobody else notices."""
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
            group_id=group_id,
            at_ms=turn.now_ms,
            member_id=heir.member_id,
            client_id=former.client_id,
            client_host=former.client_host,
            group_instance_id=former.instance_id,
            former_member_id=former.member_id,
            rebalances=False,
        )
    )


def _check_capacity(turn: Turn, group: StreamsGroup, message: StreamsGroupHeartbeatRequest) -> None:
    """Pass who is a member, takes the place of one, or finds one. Raises: ApiError."""
    limit = turn.config.group_streams_max_size
    is_in = message.member_id in group.streams_members or message.instance_id in group.instances
    if group.member_count >= limit and not is_in:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {limit} members.",
        )


def _check_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> None:
    """Pass a member in its epoch, or one that missed the last answer. Raises: ApiError."""
    if epoch == member.epoch:
        return
    if epoch < member.epoch:
        has_missed_answer = owned is not None and member.assigned.contains(owned)
        if epoch == member.previous_epoch and has_missed_answer:
            return
    raise fenced("streams", member, epoch)
