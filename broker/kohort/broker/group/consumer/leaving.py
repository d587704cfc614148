"""Members that go: by their own word, for a while as static ones, or because nothing was heard of them."""

import msgspec

from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.joining import check_static
from kohort.broker.group.consumer.member import AWAY, ConsumerMember, MemberState
from kohort.broker.group.consumer.records import (
    current_record,
    epoch_record,
    member_tombstones,
    regex_tombstone,
)
from kohort.broker.group.consumer.sessions import forget_timers, set_session_timer
from kohort.broker.group.decision import RevocationTimer, SessionTimer
from kohort.broker.group.events import GroupEmptied, MemberExpired, MemberLeft
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

LEFT = "left the group"
AWAY_FOR_A_WHILE = "left, and will be back"


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
        _note_left(turn, group, member, AWAY_FOR_A_WHILE)
    else:
        put_out(turn, group, member)
        _note_left(turn, group, member, LEFT)
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )


def put_out(turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Take the member out; what it had is free for the others from the next epoch on."""
    group_id = group.group_id
    for record in member_tombstones(group_id, member.member_id):
        turn.log(record)
    regex = member.topic_regex
    if regex and group.regex_counts[regex] <= 1 and regex in group.regexes:
        turn.log(regex_tombstone(group_id, regex))
    turn.log(epoch_record(group_id, group.epoch + 1, group.metadata_hash))
    group.metadata_version = None  # The hash is that of its topics, too: the next heartbeat looks again.
    forget_timers(turn, group, member.member_id)
    if group.member_count == 1:
        turn.note(GroupEmptied(group_id=group_id, at_ms=turn.now_ms, generation_id=group.epoch + 1))


def session_timer_fired(turn: Turn, group: ConsumerGroup, key: SessionTimer) -> None:
    """Put the member out if nothing was heard of it, or wait on for as long as it has said since."""
    session = group.sessions.get(key.member_id)
    if session is None:
        return
    if turn.now_ms < session.deadline_ms:
        set_session_timer(turn, group, key.member_id, session)
        return
    session.timer_ms = None
    _expire(turn, group, key.member_id, "nothing was heard of it")


def revocation_timer_fired(turn: Turn, group: ConsumerGroup, key: RevocationTimer) -> None:
    """Put the member out that has not given up what it had to, in the same epoch still."""
    asked_epoch = group.revocations.get(key.member_id)
    member = group.consumer_members.get(key.member_id)
    if member is None or member.state is not MemberState.UNREVOKED or member.epoch != asked_epoch:
        return
    _expire(turn, group, key.member_id, "it did not give up its partitions within its rebalance timeout")


def _expire(turn: Turn, group: ConsumerGroup, member_id: str, reason: str) -> None:
    member = group.consumer_member(member_id)
    session = group.sessions.get(member_id)
    put_out(turn, group, member)
    turn.note(
        MemberExpired(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            member_id=member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=member.instance_id,
            after_ms=0 if session is None else turn.now_ms - session.last_seen_ms,
            reason=reason,
        )
    )


def _note_left(turn: Turn, group: ConsumerGroup, member: ConsumerMember, reason: str) -> None:
    turn.note(
        MemberLeft(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=member.instance_id,
            reason=reason,
        )
    )
