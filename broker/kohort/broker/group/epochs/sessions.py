"""Session timeouts and revocation timeouts of members."""

from typing import Protocol

from kohort.broker.group.decision import RevocationTimer, SessionTimer
from kohort.broker.group.epochs.members import EpochMember
from kohort.broker.group.turn import Turn


class Session:
    """The session of a member; `timer_ms` is when the shell's timer will fire."""

    __slots__ = ("deadline_ms", "last_seen_ms", "timer_ms")

    def __init__(self) -> None:
        self.last_seen_ms = 0
        self.deadline_ms = 0
        self.timer_ms: int | None = None


class WithSessions(Protocol):
    """A group whose members have sessions and partitions or tasks pending revocation."""

    group_id: str
    sessions: dict[str, Session]
    revocations: dict[str, int]


def begin_session(turn: Turn, group: WithSessions, member_id: str, timeout_ms: int) -> None:
    """Restart the member's session; a timer that is set fires early, and is then set again."""
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = Session()
    session.last_seen_ms = turn.now_ms
    session.deadline_ms = turn.now_ms + timeout_ms
    if session.timer_ms is None or session.timer_ms > session.deadline_ms:
        _set_timer(turn, group, member_id, session)


def has_ended(turn: Turn, group: WithSessions, key: SessionTimer) -> bool:
    """Return whether the session has ended; if not, set its timer again."""
    session = group.sessions.get(key.member_id)
    if session is None:
        return False
    if turn.now_ms < session.deadline_ms:
        _set_timer(turn, group, key.member_id, session)
        return False
    session.timer_ms = None
    return True


def silent_ms(turn: Turn, group: WithSessions, member_id: str) -> int:
    """Return the time since the member's last heartbeat."""
    session = group.sessions.get(member_id)
    return 0 if session is None else turn.now_ms - session.last_seen_ms


def expect_revocation(turn: Turn, group: WithSessions, member: EpochMember) -> None:
    """Set the timer for the member's pending revocation: its rebalance timeout."""
    group.revocations[member.member_id] = member.epoch
    deadline_ms = turn.now_ms + max(member.rebalance_timeout_ms, 0)
    turn.set_timer(RevocationTimer(group.group_id, member.member_id), deadline_ms)


def stop_expecting(turn: Turn, group: WithSessions, member_id: str) -> None:
    """Cancel the timer of the member's pending revocation."""
    if group.revocations.pop(member_id, None) is not None:
        turn.cancel_timer(RevocationTimer(group.group_id, member_id))


def forget_timers(turn: Turn, group: WithSessions, member_id: str) -> None:
    """Cancel the timers of a member that leaves."""
    if group.sessions.pop(member_id, None) is not None:
        turn.cancel_timer(SessionTimer(group.group_id, member_id))
    stop_expecting(turn, group, member_id)


def _set_timer(turn: Turn, group: WithSessions, member_id: str, session: Session) -> None:
    """Set the session timer for the present end of the session."""
    session.timer_ms = session.deadline_ms
    turn.set_timer(SessionTimer(group.group_id, member_id), session.deadline_ms)
