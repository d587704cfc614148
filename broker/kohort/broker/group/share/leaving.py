"""Members of share groups that go: by their own word, or because nothing was heard of them."""

from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.epochs.leaving import LEFT, SILENT
from kohort.broker.group.epochs.sessions import begin_session, forget_session, has_ended, silent_ms
from kohort.broker.group.events import GroupEmptied, GroupLoaded, MemberExpired, MemberLeft
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.share.records import epoch_record, member_tombstones
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def leave(turn: Turn, message: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    """Let the member go, and return the answer. Raises: ApiError."""
    group = turn.groups.by_id.get(message.group_id)
    if not isinstance(group, ShareGroup):
        words = "not found" if group is None else "is not a share group"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {message.group_id} {words}.")
    member = group.share_member(message.member_id)
    turn.note(
        MemberLeft(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=None,
            reason=LEFT,
        )
    )
    _remove_member(turn, group, member)
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )


def session_timer_fired(turn: Turn, group: ShareGroup, key: SessionTimer) -> None:
    """Put the member out if nothing was heard of it, or wait on for as long as it has said since."""
    if not has_ended(turn, group, key):
        return
    member = group.share_member(key.member_id)
    turn.note(
        MemberExpired(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=None,
            after_ms=silent_ms(turn, group, key.member_id),
            reason=SILENT,
        )
    )
    _remove_member(turn, group, member)


def _remove_member(turn: Turn, group: ShareGroup, member: ShareMember) -> None:
    """Take the member out; the others share what it read from the next epoch on."""
    for record in member_tombstones(group.group_id, member.member_id):
        turn.log(record)
    turn.log(epoch_record(group.group_id, group.epoch + 1, group.metadata_hash))
    group.metadata_version = None  # The hash is that of its topics, too: the next heartbeat looks again.
    forget_session(turn, group, member.member_id)
    if group.member_count == 1:
        turn.note(GroupEmptied(group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.epoch + 1))


def extend_session(turn: Turn, group: ShareGroup, member_id: str) -> None:
    """Let the member's session begin anew."""
    timeout_ms = turn.config.of_group(
        group.overrides, "share.session.timeout.ms", turn.config.group_share_session_timeout_ms
    )
    begin_session(turn, group, member_id, timeout_ms)


def resume(turn: Turn, group: ShareGroup) -> None:
    """Let the members of a group that came back from the log go on where they were."""
    if not group.share_members:
        return
    for member_id in group.share_members:
        extend_session(turn, group, member_id)
    turn.note(
        GroupLoaded(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            generation_id=group.epoch,
            members=group.member_count,
        )
    )
