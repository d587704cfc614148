"""Classic groups as a kind of group."""

from kohort.broker.group.classic import joining, leaving, parking, rebalancing, sessions, syncing
from kohort.broker.group.classic.describing import describe_group
from kohort.broker.group.classic.group import ClassicGroup
from kohort.broker.group.classic.records import tombstones
from kohort.broker.group.classic.replaying import replay_group
from kohort.broker.group.classic.views import status
from kohort.broker.group.commands import (
    ConnectionClosed,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    RequestLost,
    SyncGroup,
)
from kohort.broker.group.decision import JoinTimer, SessionTimer, SyncTimer
from kohort.broker.group.kind import GroupKind
from kohort.protocol.offsets_topic import GroupMetadataKey

KIND = GroupKind(
    group=ClassicGroup,
    commands={
        DescribeGroup: describe_group,
        RequestLost: parking.lose,
        ConnectionClosed: sessions.connection_closed,
    },
    classic_requests={
        JoinGroup: joining.join,
        SyncGroup: syncing.sync,
        Heartbeat: sessions.refuse_heartbeat,
        LeaveGroup: leaving.leave,
    },
    replays={GroupMetadataKey: replay_group},
    timers={
        SessionTimer: sessions.session_timer_fired,
        JoinTimer: rebalancing.join_timer_fired,
        SyncTimer: syncing.sync_timer_fired,
    },
    resume=sessions.resume,
    tombstones=tombstones,
    status=status,
)
