"""Members of share groups that go: by their own word, or because nothing was heard of them."""

from kohort.broker.group.consumer.group import Session
from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.events import GroupEmptied, GroupLoaded, MemberExpired, MemberLeft
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.member import ShareMember
from kohort.broker.group.share.records import epoch_record, member_tombstones
from kohort.broker.group.turn import Turn
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


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
            reason="left the group",
        )
    )
    _put_out(turn, group, member)
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )


def session_timer_fired(turn: Turn, group: ShareGroup, key: SessionTimer) -> None:
    """Put the member out if nothing was heard of it, or wait on for as long as it has said since."""
    session = group.sessions.get(key.member_id)
    if session is None:
        return
    if turn.now_ms < session.deadline_ms:
        _set_timer(turn, group, key.member_id, session)
        return
    session.timer_ms = None
    member = group.share_member(key.member_id)
    turn.note(
        MemberExpired(
            group_id=group.group_id,
            at_ms=turn.now_ms,
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            group_instance_id=None,
            after_ms=turn.now_ms - session.last_seen_ms,
            reason="nothing was heard of it",
        )
    )
    _put_out(turn, group, member)


def _put_out(turn: Turn, group: ShareGroup, member: ShareMember) -> None:
    """Take the member out; the others share what it read from the next epoch on."""
    for record in member_tombstones(group.group_id, member.member_id):
        turn.log(record)
    turn.log(epoch_record(group.group_id, group.epoch + 1, group.metadata_hash))
    group.metadata_version = None  # The hash is that of its topics, too: the next heartbeat looks again.
    if group.sessions.pop(member.member_id, None) is not None:
        turn.cancel_timer(SessionTimer(group.group_id, member.member_id))
    if group.member_count == 1:
        turn.note(GroupEmptied(group_id=group.group_id, at_ms=turn.now_ms, generation_id=group.epoch + 1))


def extend_session(turn: Turn, group: ShareGroup, member_id: str) -> None:
    """Let the member's session begin anew; a timer that is set fires early, and is then set again."""
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = Session()
    timeout_ms = turn.config.of_group(
        group.overrides, "share.session.timeout.ms", turn.config.group_share_session_timeout_ms
    )
    session.last_seen_ms = turn.now_ms
    session.deadline_ms = turn.now_ms + timeout_ms
    if session.timer_ms is None or session.timer_ms > session.deadline_ms:
        _set_timer(turn, group, member_id, session)


def _set_timer(turn: Turn, group: ShareGroup, member_id: str, session: Session) -> None:
    session.timer_ms = session.deadline_ms
    turn.set_timer(SessionTimer(group.group_id, member_id), session.deadline_ms)


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
