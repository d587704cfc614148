"""The way from the coordinator to groups that are not classic, imported with the first of them."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kohort.broker.group.consumer import describing, heartbeat_fast_path, heartbeats, leaving, migrating
from kohort.broker.group.consumer.commands import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.replaying import knows as knows_consumer_group
from kohort.broker.group.consumer.replaying import replay as replay_consumer_group
from kohort.broker.group.consumer.resuming import resume as resume_consumer_group
from kohort.broker.group.decision import (
    AwaitedTimer,
    Decision,
    JoinTimer,
    RevocationTimer,
    SessionTimer,
    TimerKey,
)
from kohort.broker.group.group import SHARE, STREAMS, Group
from kohort.broker.group.turn import ShardState, Turn
from kohort.protocol.offsets_topic import STREAMS_GROUP_TYPES
from kohort.protocol.schema import Message

_HANDLERS: dict[type, Callable[[Turn, Any], None]] = {
    ConsumerGroupHeartbeat: heartbeats.heartbeat,
    ConsumerGroupDescribe: describing.describe,
}


_FAST_PATHS: dict[type, Callable[[ShardState, Any, int], Decision | None]] = {
    ConsumerGroupHeartbeat: heartbeat_fast_path.heartbeat,
}


def _share() -> Any:
    """Return the way to share groups, imported with the first of them."""
    return import_module("kohort.broker.group.share.entrance")


def _streams() -> Any:
    """Return the way to streams groups, imported with the first of them."""
    return import_module("kohort.broker.group.streams.entrance")


_HOMES: dict[str, Callable[[], Any]] = {SHARE: _share, STREAMS: _streams}
"""The ways to the kinds of groups that have one of their own, by type."""


def handler_of(kind: type) -> Callable[[Turn, Any], None]:
    """Return what handles a kind of command."""
    known = _HANDLERS.get(kind)
    if known is None:
        is_about_streams = kind.__module__.startswith("kohort.broker.group.streams.")
        known = (_streams if is_about_streams else _share)().HANDLERS[kind]
    return known


def fast_path_of(kind: type) -> Callable[[ShardState, Any, int], Decision | None] | None:
    """Return what answers most commands of a kind at once, and None for the others of them."""
    return _FAST_PATHS.get(kind)


def replay(groups: ShardState, key: Message, value: Message | None) -> None:
    """Take over a logged record of a group of a newer kind."""
    if knows_consumer_group(key):
        replay_consumer_group(groups, key, value)
    elif key.declaration().api_key in STREAMS_GROUP_TYPES:
        _streams().replay(groups, key, value)
    else:
        _share().replay(groups, key, value)


def resume(turn: Turn, group: Group) -> None:
    """Let a group go on that came back from the log."""
    home = _HOMES.get(group.group_type)
    if home is not None:
        home().resume(turn, group)
        return
    assert isinstance(group, ConsumerGroup), group
    resume_consumer_group(turn, group)


def timer_fired(turn: Turn, group: Group, key: TimerKey) -> None:
    """Do what a group's timer was set for."""
    home = _HOMES.get(group.group_type)
    if home is not None:
        home().timer_fired(turn, group, key)
        return
    assert isinstance(group, ConsumerGroup), group
    if isinstance(key, SessionTimer):
        leaving.session_timer_fired(turn, group, key)
    elif isinstance(key, RevocationTimer):
        leaving.revocation_timer_fired(turn, group, key)
    elif isinstance(key, AwaitedTimer):
        leaving.awaited_timer_fired(turn, group, key)
    elif isinstance(key, JoinTimer):
        migrating.downgrade(turn, group)
