"""Members of share groups that leave, by their own request or after a timeout."""

from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.epochs.leaving import LEFT, SILENT
from kohort.broker.group.epochs.sessions import begin_session, forget_timers, has_ended, silent_ms
from kohort.broker.group.events import GroupEmptied, MemberExpired, MemberLeft
from kohort.broker.group.notes import fields_of
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.share.records import epoch_record, member_tombstones
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def leave(turn: Turn, message: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    """Remove the member, and return the answer. Raises: ApiError."""
    group = turn.groups.existing(message.group_id, ShareGroup)
    member = group.member(message.member_id)
    turn.note(MemberLeft(**fields_of(turn, group, member), reason=LEFT))
    _remove_member(turn, group, member)
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )


def session_timer_fired(turn: Turn, group: ShareGroup, key: SessionTimer) -> None:
    """Remove the member if its session has ended; otherwise the timer was set again."""
    if has_ended(turn, group, key):
        member = group.member(key.member_id)
        after_ms = silent_ms(turn, group, key.member_id)
        turn.note(MemberExpired(**fields_of(turn, group, member), after_ms=after_ms, reason=SILENT))
        _remove_member(turn, group, member)


def _remove_member(turn: Turn, group: ShareGroup, member: ShareMember) -> None:
    """Remove the member; the others share its partitions from the next epoch."""
    for record in member_tombstones(group.group_id, member.member_id):
        turn.log(record)
    turn.log(epoch_record(group.group_id, group.epoch + 1, group.metadata_hash))
    group.metadata_version = None  # The hash is that of its topics, too: the next heartbeat looks again.
    forget_timers(turn, group, member.member_id)
    if group.member_count == 1:
        turn.note(GroupEmptied(group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.epoch + 1))


def extend_session(turn: Turn, group: ShareGroup, member: ShareMember) -> None:
    """Restart the member's session."""
    timeout_ms = turn.config.of_group(
        group.overrides, "share.session.timeout.ms", turn.config.group_share_session_timeout_ms
    )
    begin_session(turn, group, member.member_id, timeout_ms)
