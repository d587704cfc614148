"""How long members may be silent, and how long they may take to give partitions up."""

from kohort.broker.group.consumer.group import Awaited, ConsumerGroup, Session
from kohort.broker.group.consumer.member import ConsumerMember
from kohort.broker.group.decision import AwaitedTimer, RevocationTimer, SessionTimer
from kohort.broker.group.turn import Turn


def extend_session(turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Let the member's session begin anew; a timer that is set fires early, and is then set again."""
    member_id = member.member_id
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = Session()
    if member.classic is not None:
        timeout_ms = member.classic.session_timeout_ms
    else:
        timeout_ms = turn.config.of_group(
            group.overrides,
            "consumer.session.timeout.ms",
            turn.config.group_consumer_session_timeout_ms,
        )
    session.last_seen_ms = turn.now_ms
    session.deadline_ms = turn.now_ms + timeout_ms
    if session.timer_ms is None or session.timer_ms > session.deadline_ms:
        set_session_timer(turn, group, member_id, session)


def set_session_timer(turn: Turn, group: ConsumerGroup, member_id: str, session: Session) -> None:
    """Let the shell come back when the session ends, as it looks now."""
    session.timer_ms = session.deadline_ms
    turn.set_timer(SessionTimer(group.group_id, member_id), session.deadline_ms)


def expect_revocation(turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Give the member its rebalance timeout to give up what it has to."""
    group.revocations[member.member_id] = member.epoch
    deadline_ms = turn.now_ms + max(member.rebalance_timeout_ms, 0)
    turn.set_timer(RevocationTimer(group.group_id, member.member_id), deadline_ms)


def stop_expecting(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Wait no longer for the member to give anything up."""
    if group.revocations.pop(member_id, None) is not None:
        turn.cancel_timer(RevocationTimer(group.group_id, member_id))


def await_request(turn: Turn, group: ConsumerGroup, member: ConsumerMember, request: str) -> None:
    """Give a classic member its rebalance timeout to send that; what it was told before stands."""
    awaited = group.awaited.get(member.member_id)
    if awaited is not None and awaited.request == request:
        return
    awaited = Awaited(request, turn.now_ms + max(member.rebalance_timeout_ms, 0))
    group.awaited[member.member_id] = awaited
    turn.set_timer(AwaitedTimer(group.group_id, member.member_id), awaited.deadline_ms)


def stop_awaiting(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Wait no longer for the member's next request."""
    if group.awaited.pop(member_id, None) is not None:
        turn.cancel_timer(AwaitedTimer(group.group_id, member_id))


def forget_timers(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Forget the session of a member that goes, and what it had to give up."""
    if group.sessions.pop(member_id, None) is not None:
        turn.cancel_timer(SessionTimer(group.group_id, member_id))
    stop_expecting(turn, group, member_id)
    stop_awaiting(turn, group, member_id)
