"""Session timeouts of members, and the initial rebalance delay of a new group."""

from kohort.broker.group.decision import JoinTimer
from kohort.broker.group.epochs.sessions import begin_session
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.member import StreamsMember
from kohort.broker.group.turn import Turn


def extend_session(turn: Turn, group: StreamsGroup, member: StreamsMember) -> None:
    """Restart the member's session."""
    timeout_ms = turn.config.of_group(
        group.overrides, "streams.session.timeout.ms", turn.config.group_streams_session_timeout_ms
    )
    begin_session(turn, group, member.member_id, timeout_ms)


def delay_assignment(turn: Turn, group: StreamsGroup) -> None:
    """Delay the first assignment of a new group for more members, unless it is delayed already."""
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
