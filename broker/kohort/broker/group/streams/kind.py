"""Streams groups as a kind of group."""

from functools import partial

from kohort.broker.group.classic import joining, leaving, sessions, syncing
from kohort.broker.group.commands import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from kohort.broker.group.decision import JoinTimer, RevocationTimer, SessionTimer
from kohort.broker.group.epochs.leaving import resume, revocation_timer_fired, session_timer_fired
from kohort.broker.group.kind import GroupKind
from kohort.broker.group.streams import describing, heartbeats
from kohort.broker.group.streams.commands import StreamsGroupDescribe, StreamsGroupHeartbeat
from kohort.broker.group.streams.group import StreamsGroup
from kohort.broker.group.streams.leaving import remove_member
from kohort.broker.group.streams.records import group_tombstones
from kohort.broker.group.streams.replaying import REPLAYS
from kohort.broker.group.streams.sessions import extend_session
from kohort.broker.group.streams.stepping import delay_is_over
from kohort.broker.group.streams.views import status
from kohort.broker.group.turn import Turn


def _join(turn: Turn, group: StreamsGroup, command: JoinGroup) -> None:
    """Convert an empty group to a classic one; others accept no classic members."""
    if group.is_empty:
        joining.join_instead(turn, group, command)
    else:
        joining.refuse_kind(turn, group, command)


KIND = GroupKind(
    group=StreamsGroup,
    commands={
        StreamsGroupHeartbeat: heartbeats.heartbeat,
        StreamsGroupDescribe: describing.describe,
    },
    classic_requests={
        JoinGroup: _join,
        SyncGroup: syncing.refuse_kind,
        Heartbeat: sessions.refuse_kind,
        LeaveGroup: leaving.refuse_kind,
    },
    replays=REPLAYS,
    timers={
        SessionTimer: partial(session_timer_fired, remove_member),
        RevocationTimer: partial(revocation_timer_fired, remove_member, "tasks"),
        JoinTimer: delay_is_over,
    },
    resume=partial(resume, extend_session),
    tombstones=group_tombstones,
    status=status,
)
