"""How long members may be silent, and how long they may take to give tasks up."""

from kohort.broker.group.consumer.group import Session
from kohort.broker.group.decision import JoinTimer, RevocationTimer, SessionTimer
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.turn import Turn


def extend_session(turn: Turn, group: StreamsGroup, member_id: str) -> None:
    """Let the member's session begin anew; a timer that is set fires early, and is then set again."""
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = Session()
    timeout_ms = turn.config.of_group(
        group.overrides, "streams.session.timeout.ms", turn.config.group_streams_session_timeout_ms
    )
    session.last_seen_ms = turn.now_ms
    session.deadline_ms = turn.now_ms + timeout_ms
    if session.timer_ms is None or session.timer_ms > session.deadline_ms:
        set_session_timer(turn, group, member_id, session)


def set_session_timer(turn: Turn, group: StreamsGroup, member_id: str, session: Session) -> None:
    """Let the shell come back when the session ends, as it looks now."""
    session.timer_ms = session.deadline_ms
    turn.set_timer(SessionTimer(group.group_id, member_id), session.deadline_ms)


def expect_revocation(turn: Turn, group: StreamsGroup, member: StreamsMember) -> None:
    """Give the member its rebalance timeout to give up what it has to."""
    group.revocations[member.member_id] = member.epoch
    deadline_ms = turn.now_ms + max(member.rebalance_timeout_ms, 0)
    turn.set_timer(RevocationTimer(group.group_id, member.member_id), deadline_ms)


def stop_expecting(turn: Turn, group: StreamsGroup, member_id: str) -> None:
    """Wait no longer for the member to give anything up."""
    if group.revocations.pop(member_id, None) is not None:
        turn.cancel_timer(RevocationTimer(group.group_id, member_id))


def forget_timers(turn: Turn, group: StreamsGroup, member_id: str) -> None:
    """Forget the session of a member that goes, and what it had to give up."""
    if group.sessions.pop(member_id, None) is not None:
        turn.cancel_timer(SessionTimer(group.group_id, member_id))
    stop_expecting(turn, group, member_id)


def delay_assignment(turn: Turn, group: StreamsGroup) -> None:
    """Let a new group wait for more members before its first assignment, unless it waits already."""
    delay_ms = turn.config.of_group(
        group.overrides,
        "streams.initial.rebalance.delay.ms",
        turn.config.group_streams_initial_rebalance_delay_ms,
    )
    if delay_ms > 0 and not is_delayed(turn, group):
        group.delayed_until_ms = turn.now_ms + delay_ms
        turn.set_timer(JoinTimer(group.group_id), group.delayed_until_ms)


def is_delayed(turn: Turn, group: StreamsGroup) -> bool:
    """Return whether the group waits for more members."""
    return group.delayed_until_ms is not None and turn.now_ms < group.delayed_until_ms
