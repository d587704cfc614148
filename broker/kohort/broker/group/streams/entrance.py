"""The way from the coordinator to streams groups, imported with the first of them."""

from collections.abc import Callable
from typing import Any

from kohort.broker.group.decision import JoinTimer, RevocationTimer, SessionTimer, TimerKey
from kohort.broker.group.group import Group
from kohort.broker.group.streams import describing, heartbeats, leaving, stepping
from kohort.broker.group.streams.commands import StreamsGroupDescribe, StreamsGroupHeartbeat
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.replaying import replay
from kohort.broker.group.turn import Turn

__all__ = ["HANDLERS", "replay", "resume", "timer_fired"]

HANDLERS: dict[type, Callable[[Turn, Any], None]] = {
    StreamsGroupHeartbeat: heartbeats.heartbeat,
    StreamsGroupDescribe: describing.describe,
}


def resume(turn: Turn, group: Group) -> None:
    """Let a group go on that came back from the log."""
    assert isinstance(group, StreamsGroup), group
    leaving.resume(turn, group)


def timer_fired(turn: Turn, group: Group, key: TimerKey) -> None:
    """Do what a group's timer was set for."""
    assert isinstance(group, StreamsGroup), group
    if isinstance(key, SessionTimer):
        leaving.session_timer_fired(turn, group, key)
    elif isinstance(key, RevocationTimer):
        leaving.revocation_timer_fired(turn, group, key)
    elif isinstance(key, JoinTimer):
        stepping.delay_is_over(turn, group)
