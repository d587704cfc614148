"""Members that go: by their own word, for a while as static ones, or because nothing was heard of them."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from kohort.broker.group.causes import client_reason
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.member import AWAY, ConsumerMember, MemberState
from kohort.broker.group.consumer.migrating import downgrade_soon
from kohort.broker.group.consumer.records import (
    current_record,
    epoch_record,
    member_tombstones,
    regex_tombstone,
)
from kohort.broker.group.consumer.sessions import forget_timers
from kohort.broker.group.decision import AwaitedTimer, RevocationTimer, SessionTimer
from kohort.broker.group.epochs import explaining
from kohort.broker.group.epochs.leaving import (
    AWAY_FOR_A_WHILE,
    LEFT,
    SILENT,
    note_expired,
    note_left,
)
from kohort.broker.group.epochs.members import check_static
from kohort.broker.group.epochs.sessions import has_ended, silent_ms
from kohort.broker.group.events import Cause, CauseKind, GroupEmptied
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.messages.leave_group import MemberIdentity


def leave(turn: Turn, message: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Let the member go, and return the answer. Raises: ApiError."""
    group = turn.groups.by_id.get(message.group_id)
    if not isinstance(group, ConsumerGroup):
        words = "not found" if group is None else "is not a consumer group"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} {words}.")
    if message.instance_id is None:
        member = group.consumer_member(message.member_id)
    else:
        member = check_static(group, message.instance_id, message.member_id)
    if message.instance_id is not None and message.member_epoch == AWAY:
        away = msgspec.structs.replace(member, epoch=AWAY, revoking={})
        turn.log(current_record(group.group_id, away))
        note_left(turn, group.group_id, member, AWAY_FOR_A_WHILE)
    else:
        remove_member(turn, group, explaining.cause_of(turn, CauseKind.MEMBER_LEFT, member), member)
        note_left(turn, group.group_id, member, LEFT)
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )


def remove_member(turn: Turn, group: ConsumerGroup, cause: Cause, *members: ConsumerMember) -> None:
    """Take the members out; what they had is free for the others from the next epoch on."""
    group_id = group.group_id
    explaining.epoch_grows(turn, group, cause, without={each.member_id for each in members})
    for member in members:
        explaining.gone(turn, group, member.member_id, is_expired=cause.kind is not CauseKind.MEMBER_LEFT)
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
        explaining.emptied(turn, group, group.epoch + 1)
        turn.note(GroupEmptied(group_id=group_id, at_ms=turn.now_ms, generation_id=group.epoch + 1))
    downgrade_soon(turn, group, without={each.member_id for each in members})


def leave_together(turn: Turn, group: ConsumerGroup, identities: Sequence[MemberIdentity]) -> list[ErrorCode]:
    """Let these members go, of whichever protocol; return each one's error code."""
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
            note_left(turn, group.group_id, member, client_reason(identity.reason) or LEFT)
    if leaving:
        cause = explaining.cause_of(turn, CauseKind.MEMBER_LEFT, next(iter(leaving.values())))
        remove_member(turn, group, cause, *leaving.values())
    return codes


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Return who is meant: an administrator names a static member by its instance id alone."""
    if identity.group_instance_id is None:
        return group.consumer_member(identity.member_id)
    if identity.member_id:
        return check_static(group, identity.group_instance_id, identity.member_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def session_timer_fired(turn: Turn, group: ConsumerGroup, key: SessionTimer) -> None:
    """Put the member out if nothing was heard of it, or wait on for as long as it has said since."""
    if has_ended(turn, group, key):
        _expire(turn, group, key.member_id, CauseKind.MEMBER_EXPIRED, SILENT)


def revocation_timer_fired(turn: Turn, group: ConsumerGroup, key: RevocationTimer) -> None:
    """Put the member out that has not given up what it had to, in the same epoch still."""
    asked_epoch = group.revocations.get(key.member_id)
    member = group.consumer_members.get(key.member_id)
    if member is None or member.state is not MemberState.UNREVOKED or member.epoch != asked_epoch:
        return
    reason = "it did not give up its partitions within its rebalance timeout"
    _expire(turn, group, key.member_id, CauseKind.MEMBER_DID_NOT_COME, reason)


def awaited_timer_fired(turn: Turn, group: ConsumerGroup, key: AwaitedTimer) -> None:
    """Put the classic member out that has not joined or synced in time."""
    awaited = group.awaited.get(key.member_id)
    if awaited is None or key.member_id not in group.consumer_members:
        return
    if turn.now_ms < awaited.deadline_ms:
        turn.set_timer(key, awaited.deadline_ms)
        return
    reason = f"no {awaited.request} came within its rebalance timeout"
    _expire(turn, group, key.member_id, CauseKind.MEMBER_DID_NOT_COME, reason)


def _expire(turn: Turn, group: ConsumerGroup, member_id: str, kind: CauseKind, reason: str) -> None:
    member = group.consumer_member(member_id)
    after_ms = silent_ms(turn, group, member_id)
    remove_member(turn, group, explaining.cause_of(turn, kind, member, after_ms=after_ms), member)
    note_expired(turn, group.group_id, member, reason, after_ms)
