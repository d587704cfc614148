import pytest

from kohort.broker.group import SyncGroup
from kohort.broker.group.events import CauseKind, MemberExpired, RebalanceStarted
from kohort.broker.group.test_world import Client, World, assignment, stable_group, sync_all
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kohort.protocol.offsets_topic import GroupMetadataValue


def joined(world: World, *clients: Client) -> None:
    for client in clients:
        client.join()
    world.sleep(6_000)
    for client in clients:
        assert client.joined() is not None


def code_of(client: Client) -> ErrorCode | None:
    response = client.synced()
    return None if response is None else ErrorCode(response.error_code)


@pytest.mark.requirement("R2")
def test_followers_wait_for_the_leaders_assignment() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    joined(world, a, b)
    b.sync()
    assert code_of(b) is None
    a.sync({a.member_id: b"for a", b.member_id: b"for b"})
    responses = [each.synced() for each in (a, b)]
    assert [each.assignment for each in responses if each is not None] == [b"for a", b"for b"]
    assert {each.protocol_name for each in responses if each is not None} == {"range"}
    assert world.state() == "Stable"


def test_a_follower_that_syncs_late_gets_its_assignment_at_once() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    joined(world, a, b)
    a.sync({b.member_id: b"for b"})
    b.sync()
    response = b.synced()
    assert response is not None
    assert response.assignment == b"for b"


def test_the_assignment_is_logged_before_members_receive_it() -> None:
    world = World()
    a, b = Client(world, "a", instance="one"), Client(world, "b")
    joined(world, a, b)
    a.sync({a.member_id: b"for a"})
    value = world.log[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.leader, value.protocol) == (1, a.member_id, "range")
    assert [(each.member_id, each.assignment) for each in value.members] == [
        (a.member_id, b"for a"),
        (b.member_id, b""),
    ]
    assert value.members[0].group_instance_id == "one"
    assert (value.members[0].session_timeout, value.members[0].rebalance_timeout) == (10_000, 60_000)


def test_a_sync_of_another_generation_or_protocol_is_refused() -> None:
    world = World()
    a = Client(world, "a")
    joined(world, a)
    a.generation_id = 0
    a.sync()
    assert code_of(a) is ErrorCode.ILLEGAL_GENERATION
    a.generation_id = 1
    a.sync(protocol_type="connect")
    assert code_of(a) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    a.sync(protocol_name="sticky")
    assert code_of(a) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    a.sync({}, protocol_type="consumer", protocol_name="range")
    assert code_of(a) is ErrorCode.NONE


def test_from_version_5_a_sync_must_name_its_protocol() -> None:
    world = World()
    a = Client(world, "a")
    joined(world, a)
    message = SyncGroupRequest(group_id="g", generation_id=1, member_id=a.member_id, assignments=())
    for version, code in ((5, ErrorCode.INCONSISTENT_GROUP_PROTOCOL), (4, ErrorCode.NONE)):
        request_id = next(world.request_ids)
        world.do(SyncGroup(request_id, message, version))
        assert world.answer(request_id, SyncGroupResponse).error_code == code


def test_unknown_members_cannot_sync() -> None:
    world = World()
    ghost = Client(world, "ghost")
    ghost.sync()
    assert code_of(ghost) is ErrorCode.UNKNOWN_MEMBER_ID
    ghost.group_id = ""
    ghost.sync()
    assert code_of(ghost) is ErrorCode.INVALID_GROUP_ID


@pytest.mark.requirement("R9")
def test_a_sync_during_the_join_phase_gets_rebalance_in_progress() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    a.sync()
    assert code_of(a) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.requirement("R10")
def test_the_group_starts_over_when_the_leader_vanishes_before_it_syncs() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=6_000), Client(world, "b", session_timeout_ms=30_000)
    joined(world, a, b)
    b.sync()
    world.sleep(6_000)
    assert code_of(b) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.noted(RebalanceStarted)[-1].cause.kind is CauseKind.MEMBER_EXPIRED
    b.join()
    sync_all(world, b)
    assert b.generation_id == 2


def test_a_new_member_sends_syncing_members_back_to_join() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    joined(world, a, b)
    b.sync()
    c.join()
    assert code_of(b) is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    b.join()
    sync_all(world, a, b, c)
    assert [each.outcome.value for each in world.history()] == ["restarted", "stable"]


@pytest.mark.requirement("R10")
def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
    world = World()
    a, b = Client(world, "a", rebalance_timeout_ms=20_000), Client(world, "b", rebalance_timeout_ms=20_000)
    joined(world, a, b)
    a.sync({a.member_id: assignment("t", 0), b.member_id: assignment("t", 1)})
    assert code_of(a) is ErrorCode.NONE
    for _ in range(4):  # Both live, but b never asks for its part.
        world.sleep(5_000)
        a.heartbeat()
        b.heartbeat()
    assert world.noted(MemberExpired)[-1].client_id == "b"
    assert world.noted(RebalanceStarted)[-1].cause.kind is CauseKind.MEMBER_DID_NOT_SYNC
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    a.join()
    sync_all(world, a)


def test_the_group_starts_over_when_its_live_leader_never_syncs() -> None:
    world = World()
    a, b = Client(world, "a", rebalance_timeout_ms=20_000), Client(world, "b", rebalance_timeout_ms=20_000)
    joined(world, a, b)
    b.sync()
    for _ in range(4):
        world.sleep(5_000)
        a.heartbeat()
    assert code_of(b) is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.state() == "PreparingRebalance"


def test_members_that_have_all_synced_are_not_removed() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    for _ in range(60):
        world.sleep(5_000)
        assert a.heartbeat() is ErrorCode.NONE
        assert b.heartbeat() is ErrorCode.NONE
