"""The timers of members' sessions."""

from kohort.broker.group.classic.group import ClassicGroup, Member
from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.turn import Turn


def extend_session(turn: Turn, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
    """Extend the member's session by that time; by default its own timeout."""
    member.last_seen_ms = turn.now_ms
    deadline_ms = turn.now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
    member.session_deadline_ms = deadline_ms
    if member.timer_ms is None or member.timer_ms > deadline_ms:
        member.timer_ms = deadline_ms
        turn.set_timer(SessionTimer(group.group_id, member.member_id), deadline_ms)


def end_session(turn: Turn, group: ClassicGroup, member: Member) -> None:
    """Forget the member's session, and its timer: one may be owed even where the last has fired."""
    member.timer_ms = None
    turn.cancel_timer(SessionTimer(group.group_id, member.member_id))
