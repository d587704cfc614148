"""The way from the coordinator to share groups, imported with the first of them."""

from collections.abc import Callable
from typing import Any

from kohort.broker.group.decision import SessionTimer, TimerKey
from kohort.broker.group.group import Group
from kohort.broker.group.share import describing, heartbeats, leaving, readiness
from kohort.broker.group.share.commands import (
    ForgetDeletedTopics,
    ForgetShareState,
    ShareGroupDescribe,
    ShareGroupHeartbeat,
    ShareStateReady,
    StartShareState,
)
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.replaying import replay
from kohort.broker.group.turn import Turn

__all__ = ["HANDLERS", "replay", "resume", "timer_fired"]

HANDLERS: dict[type, Callable[[Turn, Any], None]] = {
    ShareGroupHeartbeat: heartbeats.heartbeat,
    ShareGroupDescribe: describing.describe,
    ShareStateReady: readiness.become_ready,
    StartShareState: readiness.start,
    ForgetShareState: readiness.forget,
    ForgetDeletedTopics: readiness.forget_topics,
}


def resume(turn: Turn, group: Group) -> None:
    """Let a group go on that came back from the log."""
    assert isinstance(group, ShareGroup), group
    leaving.resume(turn, group)


def timer_fired(turn: Turn, group: Group, key: TimerKey) -> None:
    """Do what a group's timer was set for."""
    assert isinstance(group, ShareGroup), group
    if isinstance(key, SessionTimer):
        leaving.session_timer_fired(turn, group, key)
