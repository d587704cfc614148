"""Consumer groups as a kind of group."""

from functools import partial

from kohort.broker.group.commands import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from kohort.broker.group.consumer import classic_members, describing, heartbeat_fast_path, heartbeats, leaving
from kohort.broker.group.consumer.commands import ConsumerGroupDescribe, ConsumerGroupHeartbeat
from kohort.broker.group.consumer.group import ConsumerGroup
from kohort.broker.group.consumer.migrating import downgrade, downgrade_soon
from kohort.broker.group.consumer.records import group_tombstones
from kohort.broker.group.consumer.replaying import REPLAYS
from kohort.broker.group.consumer.sessions import extend_session
from kohort.broker.group.consumer.views import status
from kohort.broker.group.decision import AwaitedTimer, JoinTimer, RevocationTimer, SessionTimer
from kohort.broker.group.epochs.leaving import resume, revocation_timer_fired, session_timer_fired
from kohort.broker.group.kind import GroupKind
from kohort.broker.group.turn import Turn


def _resume(turn: Turn, group: ConsumerGroup) -> None:
    downgrade_soon(turn, group)
    resume(extend_session, turn, group)


KIND = GroupKind(
    group=ConsumerGroup,
    commands={
        ConsumerGroupHeartbeat: heartbeats.heartbeat,
        ConsumerGroupDescribe: describing.describe,
    },
    fast_paths={ConsumerGroupHeartbeat: heartbeat_fast_path.heartbeat},
    classic_requests={
        JoinGroup: classic_members.join,
        SyncGroup: classic_members.sync,
        Heartbeat: classic_members.heartbeat,
        LeaveGroup: leaving.leave_classic,
    },
    replays=REPLAYS,
    timers={
        SessionTimer: partial(session_timer_fired, leaving.remove_member),
        RevocationTimer: partial(revocation_timer_fired, leaving.remove_member, "partitions"),
        AwaitedTimer: leaving.awaited_timer_fired,
        JoinTimer: downgrade,
    },
    resume=_resume,
    tombstones=group_tombstones,
    status=status,
)
