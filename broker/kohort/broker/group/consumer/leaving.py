"""Members that leave: for good, for a while as static members, or after a timeout."""

from collections import Counter
from functools import partial

import msgspec

from kohort.broker.group.classic.leaving import Identities, answer
from kohort.broker.group.commands import LeaveGroup
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import ConsumerMember
from kohort.broker.group.consumer.migrating import downgrade_soon
from kohort.broker.group.consumer.records import (
    current_record,
    epoch_record,
    member_tombstones,
    regex_tombstone,
)
from kohort.broker.group.consumer.sessions import forget_timers
from kohort.broker.group.decision import AwaitedTimer
from kohort.broker.group.epochs.leaving import AWAY_FOR_A_WHILE, LEFT, expire
from kohort.broker.group.epochs.members import AWAY, known_member
from kohort.broker.group.epochs.rebalancing import end_rebalance, epoch_grows
from kohort.broker.group.events import Cause, CauseKind, GroupEmptied, MemberLeft
from kohort.broker.group.notes import client_reason, fields_of, member_cause
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.messages.leave_group import MemberIdentity


def leave(turn: Turn, message: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Remove the member, and return the answer. Raises: ApiError."""
    group = turn.groups.existing(message.group_id, ConsumerGroup)
    member = known_member(group, message.member_id, message.instance_id)
    if message.instance_id is not None and message.member_epoch == AWAY:
        away = msgspec.structs.replace(member, epoch=AWAY, revoking={})
        turn.log(current_record(group.group_id, away))
        turn.note(MemberLeft(**fields_of(turn, group, member), reason=AWAY_FOR_A_WHILE))
    else:
        remove_member(turn, group, member_cause(turn, CauseKind.MEMBER_LEFT, member), member)
        turn.note(MemberLeft(**fields_of(turn, group, member), reason=LEFT))
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )


def remove_member(turn: Turn, group: ConsumerGroup, cause: Cause, *members: ConsumerMember) -> None:
    """Remove the members; their partitions are free for the others from the next epoch."""
    group_id = group.group_id
    epoch_grows(turn, group, cause, *members)
    regexes = Counter(each.topic_regex for each in members if each.topic_regex)
    for member in members:
        for record in member_tombstones(group_id, member.member_id):
            turn.log(record)
        forget_timers(turn, group, member.member_id)
    for regex, count in regexes.items():
        if group.regex_counts[regex] <= count and regex in group.regexes:
            turn.log(regex_tombstone(group_id, regex))
    turn.log(epoch_record(group_id, group.epoch + 1, group.metadata_hash))
    group.metadata_version = None  # The hash is that of its topics, too: the next heartbeat looks again.
    if group.member_count == len(members):
        end_rebalance(turn, group, group.epoch + 1, {})
        turn.note(GroupEmptied(group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.epoch + 1))
    downgrade_soon(turn, group, without={each.member_id for each in members})


def leave_classic(turn: Turn, group: ConsumerGroup, command: LeaveGroup) -> None:
    """Answer a LeaveGroup: of classic members, or of an administrator that removes any."""
    answer(turn, command, partial(_leave_together, turn, group))


def _leave_together(turn: Turn, group: ConsumerGroup, identities: Identities) -> list[ErrorCode]:
    """Remove these members of either protocol; return the error code of each."""
    codes: list[ErrorCode] = []
    leaving: dict[str, ConsumerMember] = {}
    for identity in identities:
        try:
            member = _identified(group, identity)
        except ApiError as error:
            codes.append(error.code)
            continue
        codes.append(ErrorCode.NONE)
        if leaving.setdefault(member.member_id, member) is member:
            reason = client_reason(identity.reason) or LEFT
            turn.note(MemberLeft(**fields_of(turn, group, member), reason=reason))
    if leaving:
        cause = member_cause(turn, CauseKind.MEMBER_LEFT, next(iter(leaving.values())))
        remove_member(turn, group, cause, *leaving.values())
    return codes


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Return the named members: an administrator names a static member only by its instance id."""
    if identity.group_instance_id is None or identity.member_id:
        return known_member(group, identity.member_id, identity.group_instance_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def awaited_timer_fired(turn: Turn, group: ConsumerGroup, key: AwaitedTimer) -> None:
    """Remove the classic member that has not joined or synced in time."""
    awaited = group.awaited.get(key.member_id)
    if awaited is None or key.member_id not in group.members:
        return
    if turn.now_ms < awaited.deadline_ms:
        turn.set_timer(key, awaited.deadline_ms)
        return
    reason = f"no {awaited.request} came within its rebalance timeout"
    expire(remove_member, turn, group, key.member_id, CauseKind.MEMBER_DID_NOT_COME, reason)
