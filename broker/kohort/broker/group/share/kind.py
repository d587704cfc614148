"""Share groups as a kind of group."""

from functools import partial

from kohort.broker.group.classic import joining, leaving, sessions, syncing
from kohort.broker.group.commands import Heartbeat, JoinGroup, LeaveGroup, SyncGroup
from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.epochs.leaving import resume
from kohort.broker.group.kind import GroupKind
from kohort.broker.group.share import describing, heartbeats, readiness
from kohort.broker.group.share.commands import (
    ForgetDeletedTopics,
    ForgetShareState,
    ShareGroupDescribe,
    ShareGroupHeartbeat,
    ShareStateReady,
    StartShareState,
)
from kohort.broker.group.share.group import ShareGroup
from kohort.broker.group.share.leaving import extend_session, session_timer_fired
from kohort.broker.group.share.records import group_tombstones
from kohort.broker.group.share.replaying import REPLAYS
from kohort.broker.group.share.views import status

KIND = GroupKind(
    group=ShareGroup,
    commands={
        ShareGroupHeartbeat: heartbeats.heartbeat,
        ShareGroupDescribe: describing.describe,
        ShareStateReady: readiness.become_ready,
        StartShareState: readiness.start,
        ForgetShareState: readiness.forget,
        ForgetDeletedTopics: readiness.forget_topics,
    },
    classic_requests={
        JoinGroup: joining.refuse_kind,
        SyncGroup: syncing.refuse_kind,
        Heartbeat: sessions.refuse_kind,
        LeaveGroup: leaving.refuse_kind,
    },
    replays=REPLAYS,
    timers={SessionTimer: session_timer_fired},
    resume=partial(resume, extend_session),
    tombstones=group_tombstones,
    status=status,
)
