"""A kind of group, as the coordinator sees it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kohort.broker.group.decision import Decision, Record
from kohort.broker.group.group import AnyGroup
from kohort.broker.group.turn import Handler, ShardState, Turn
from kohort.broker.group.views import GroupStatus

Replay = Callable[[ShardState, Any, Any], None]
"""Takes over a record's key and value; a value of None is a tombstone."""


class GroupKind(NamedTuple):
    """A kind of group: its commands, the replay of its records, and its timers."""

    group: type[AnyGroup]
    commands: Mapping[type, Callable[[Turn, Any], None]]
    """What handles the kind's own commands, by their classes."""
    classic_requests: Mapping[type, Callable[[Turn, Any, Any], None]]
    """What handles JoinGroup, SyncGroup, Heartbeat and LeaveGroup where they name a group of this kind."""
    replays: Mapping[type, Replay]
    """By the class of the record's key."""
    timers: Mapping[type, Callable[[Turn, Any, Any], None]]
    """The action for a group when a timer has fired, by the class of its key."""
    resume: Callable[[Turn, Any], None]
    """Continues a group that was loaded from the log."""
    tombstones: Callable[[Any], Iterable[Record]]
    """Returns the records that delete a group."""
    status: Callable[[Any, int], GroupStatus]
    """Returns the state of a group for people, at that time."""
    fast_paths: Mapping[type, Callable[[Handler, ShardState, Any, int], Decision]] = {}
    """Answers to frequent commands without a turn, by class; other commands go to their handler."""
