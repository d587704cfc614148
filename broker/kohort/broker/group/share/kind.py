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
from kohort.broker.group.share.views import view
from kohort.broker.group.turn import in_a_turn

KIND = GroupKind(
    group=ShareGroup,
    commands={
        ShareGroupHeartbeat: in_a_turn(heartbeats.heartbeat),
        ShareGroupDescribe: in_a_turn(describing.describe),
        ShareStateReady: in_a_turn(readiness.become_ready),
        StartShareState: in_a_turn(readiness.start),
        ForgetShareState: in_a_turn(readiness.forget),
        ForgetDeletedTopics: in_a_turn(readiness.forget_topics),
    },
    classic_requests={
        JoinGroup: joining.refuse_kind,
        SyncGroup: syncing.refuse_kind,
        Heartbeat: sessions.refuse_heartbeat,
        LeaveGroup: leaving.refuse_kind,
    },
    replays=REPLAYS,
    timers={SessionTimer: session_timer_fired},
    resume=partial(resume, extend_session),
    tombstones=group_tombstones,
    view=view,
)
