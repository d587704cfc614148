import pytest

from kohort.broker.group import Heartbeat, SetTimer
from kohort.broker.group.classic.sessions import ALIVE
from kohort.broker.group.decision import SessionTimer
from kohort.broker.group.events import CauseKind, MemberExpired, RebalanceStarted
from kohort.broker.group.test_world import Client, World, stable_group, sync_all
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest


@pytest.mark.requirement("R8")
def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=10_000), Client(world, "b", session_timeout_ms=60_000)
    stable_group(world, a, b)
    world.sleep(4_000)
    a.heartbeat()
    world.sleep(9_999)
    assert world.state() == "Stable"
    world.sleep(1)
    assert world.state() == "PreparingRebalance"
    out = world.noted(MemberExpired)[-1]
    assert (out.member_id, out.after_ms) == (a.member_id, 10_000)
    assert world.noted(RebalanceStarted)[-1].cause.kind is CauseKind.MEMBER_EXPIRED
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    b.join()
    sync_all(world, b)


def test_a_heartbeat_sets_no_timer_and_shares_its_answer() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id=a.member_id)
    decision = world.do(Heartbeat(9_999, message))
    assert not any(isinstance(each, SetTimer) for each in decision.effects)
    assert world.replies[9_999] is ALIVE


def test_the_timer_of_a_given_id_becomes_the_session_timer() -> None:
    world = World()
    a, given_ms = Client(world, "a", session_timeout_ms=10_000), world.now_ms
    stable_group(world, a)  # It waits for others meanwhile.
    deadline_ms, _ = world.timers[SessionTimer("g", a.member_id)]
    assert deadline_ms == given_ms + 10_000 < world.now_ms + 10_000
    world.sleep(9_999)  # Past the id's time, when it was set anew for the session's.
    assert world.state() == "Stable"
    world.sleep(1)
    assert world.state() == "Empty"


@pytest.mark.requirement("R9")
def test_a_heartbeat_reports_a_rebalance_except_during_the_sync_phase() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    a.joined()
    assert world.state() == "CompletingRebalance"
    assert a.heartbeat() is ErrorCode.NONE


@pytest.mark.requirement("R9")
def test_a_refused_heartbeat_has_the_right_error_code() -> None:
    world = World()
    a, ghost = Client(world, "a", instance="one"), Client(world, "ghost")
    assert ghost.heartbeat(1) is ErrorCode.UNKNOWN_MEMBER_ID
    stable_group(world, a)
    assert a.heartbeat(0) is ErrorCode.ILLEGAL_GENERATION
    assert ghost.heartbeat(1) is ErrorCode.UNKNOWN_MEMBER_ID
    ghost.instance = "one"
    assert ghost.heartbeat(1) is ErrorCode.FENCED_INSTANCE_ID
    ghost.instance = "two"
    assert ghost.heartbeat(1) is ErrorCode.UNKNOWN_MEMBER_ID
    ghost.member_id = a.member_id
    assert ghost.heartbeat(1) is ErrorCode.UNKNOWN_MEMBER_ID
    ghost.group_id = ""
    assert ghost.heartbeat(1) is ErrorCode.INVALID_GROUP_ID


def test_a_fenced_heartbeat_does_not_keep_the_session_alive() -> None:
    world = World()
    a = Client(world, "a", instance="one")
    stable_group(world, a)
    a.instance = "two"
    world.sleep(9_000)
    a.heartbeat()
    world.sleep(1_000)
    assert world.state() == "Empty"


def test_commits_keep_the_session_alive() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    for offset in range(5):
        world.sleep(9_000)
        assert a.commit("t", 0, offset) is ErrorCode.NONE


def test_a_parked_request_keeps_the_session_alive() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b", session_timeout_ms=60_000)
    stable_group(world, a, b)
    a.join()
    world.sleep(30_000)
    assert a.joined() is None
    b.join()
    sync_all(world, a, b)
    world.sleep(10_000)
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID, "its session began anew with the answer"


def test_a_parked_client_that_disconnected_counts_until_its_session_ends() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    lost = a.join()
    a.disappear()
    world.sleep(5_000)
    b.join()
    assert lost not in world.replies
    b.joined()
    assert world.state() == "CompletingRebalance"
    assert a.member_id in world.core.groups["g"].members
    world.sleep(5_000)
    b.heartbeat()
    world.sleep(5_000)
    assert a.member_id not in world.core.groups["g"].members
    assert lost not in world.replies


def test_a_lost_sync_is_never_answered() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    a.join()
    b.join()
    world.sleep(6_000)
    a.joined()
    b.joined()
    lost = b.sync()
    b.disappear()
    a.sync()
    assert world.state() == "Stable"
    assert lost not in world.replies
    world.sleep(10_000)
    assert b.member_id not in world.core.groups["g"].members
