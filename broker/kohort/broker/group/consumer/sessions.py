"""Session timeouts of members, and the timeouts for a classic member's next JoinGroup or SyncGroup."""

from kohort.broker.group.consumer.group import Awaited, ConsumerGroup
from kohort.broker.group.consumer.member import ConsumerMember
from kohort.broker.group.decision import AwaitedTimer
from kohort.broker.group.epochs.sessions import begin_session
from kohort.broker.group.epochs.sessions import forget_timers as forget_member_timers
from kohort.broker.group.turn import Turn


def extend_session(turn: Turn, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Restart the member's session."""
    if member.classic is not None:
        timeout_ms = member.classic.session_timeout_ms
    else:
        timeout_ms = turn.config.of_group(
            group.overrides,
            "consumer.session.timeout.ms",
            turn.config.group_consumer_session_timeout_ms,
        )
    begin_session(turn, group, member.member_id, timeout_ms)


def await_request(turn: Turn, group: ConsumerGroup, member: ConsumerMember, request: str) -> None:
    """Expect this request of a classic member within its rebalance timeout, from the first call on."""
    awaited = group.awaited.get(member.member_id)
    if awaited is not None and awaited.request == request:
        return
    awaited = Awaited(request, turn.now_ms + max(member.rebalance_timeout_ms, 0))
    group.awaited[member.member_id] = awaited
    turn.set_timer(AwaitedTimer(group.group_id, member.member_id), awaited.deadline_ms)


def stop_awaiting(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Cancel the timer of the member's next request."""
    if group.awaited.pop(member_id, None) is not None:
        turn.cancel_timer(AwaitedTimer(group.group_id, member_id))


def forget_timers(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Cancel the timers of a member that leaves."""
    forget_member_timers(turn, group, member_id)
    stop_awaiting(turn, group, member_id)
