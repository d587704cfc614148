"""The group coordinator's pure core: `handle(command, now_ms) -> Decision(records, effects)`.

No loop, clock, socket, randomness or log in here: time and fresh ids come with the commands.
"""

from kohort.broker.group.classic.joining import final_error
from kohort.broker.group.commands import (
    NO_REQUEST,
    Command,
    ConnectionClosed,
    DeleteGroup,
    DescribeGroup,
    EndOffsets,
    ExpireOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    RequestLost,
    SyncGroup,
    TimerFired,
    TopicsDeleted,
    TxnOffsetCommit,
)
from kohort.broker.group.config import GroupConfig
from kohort.broker.group.coordinator import GroupCoordinator
from kohort.broker.group.decision import (
    CancelTimer,
    Decision,
    Effect,
    JoinTimer,
    Note,
    Record,
    Reply,
    SessionTimer,
    SetTimer,
    SyncTimer,
    TimerKey,
)
from kohort.broker.group.events import Event
from kohort.broker.group.partition import coordinator_partition
from kohort.broker.group.refusals import refusal, refused_instead
from kohort.broker.group.shard_bytes import Room
from kohort.broker.group.state import GroupState

__all__ = [
    "NO_REQUEST",
    "CancelTimer",
    "Command",
    "ConnectionClosed",
    "Decision",
    "DeleteGroup",
    "DescribeGroup",
    "Effect",
    "EndOffsets",
    "Event",
    "ExpireOffsets",
    "GroupConfig",
    "GroupCoordinator",
    "GroupState",
    "Heartbeat",
    "JoinGroup",
    "JoinTimer",
    "LeaveGroup",
    "ListGroups",
    "Note",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetFetch",
    "Record",
    "Reply",
    "RequestLost",
    "Room",
    "SessionTimer",
    "SetTimer",
    "SyncGroup",
    "SyncTimer",
    "TimerFired",
    "TimerKey",
    "TopicsDeleted",
    "TxnOffsetCommit",
    "coordinator_partition",
    "final_error",
    "refusal",
    "refused_instead",
]
