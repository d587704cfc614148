"""The way from the coordinator to groups that are not classic, imported with the first of them."""

from collections.abc import Callable
from typing import Any

from kohort.broker.group.consumer import describing, heartbeats, leaving
from kohort.broker.group.consumer.commands import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.replaying import replay as replay_consumer_group
from kohort.broker.group.consumer.resuming import resume as resume_consumer_group
from kohort.broker.group.decision import RevocationTimer, SessionTimer, TimerKey
from kohort.broker.group.group import Group
from kohort.broker.group.turn import Groups, Turn
from kohort.protocol.schema import Message

_HANDLERS: dict[type, Callable[[Turn, Any], None]] = {
    ConsumerGroupHeartbeat: heartbeats.heartbeat,
    ConsumerGroupDescribe: describing.describe,
}


def handler_of(kind: type) -> Callable[[Turn, Any], None]:
    """Return what handles a kind of command."""
    return _HANDLERS[kind]


def replay(groups: Groups, key: Message, value: Message | None) -> None:
    """Take over a logged record of a group of a newer kind."""
    replay_consumer_group(groups, key, value)


def resume(turn: Turn, group: Group) -> None:
    """Let a group go on that came back from the log."""
    assert isinstance(group, ConsumerGroup), group
    resume_consumer_group(turn, group)


def timer_fired(turn: Turn, group: Group, key: TimerKey) -> None:
    """Do what a group's timer was set for."""
    assert isinstance(group, ConsumerGroup), group
    if isinstance(key, SessionTimer):
        leaving.session_timer_fired(turn, group, key)
    elif isinstance(key, RevocationTimer):
        leaving.revocation_timer_fired(turn, group, key)
