import pytest

from kohort.broker.group.events import MemberFenced, RebalanceStarted, StaticMemberReturned
from kohort.broker.group.test_world import Client, World, assignment, stable_group, sync_all
from kohort.protocol.errors import ErrorCode
from kohort.protocol.offsets_topic import GroupMetadataValue


def restarted(client: Client, **options: object) -> Client:
    """The same static member in another process: it knows no member id."""
    fresh = Client(client.world, client.name, instance=client.instance, version=client.version)
    for name, value in options.items():
        setattr(fresh, name, value)
    return fresh


def test_a_static_member_joins_in_one_step() -> None:
    world = World()
    a = Client(world, "a", instance="one")
    a.request_join()
    assert a.joined() is None
    world.sleep(3_000)
    assert a.joined() is not None
    assert a.member_id.startswith("one-")


@pytest.mark.requirement("R12")
def test_a_static_member_that_returns_gets_its_assignment_without_a_rebalance() -> None:
    world = World()
    a, b = Client(world, "a", instance="one"), Client(world, "b", instance="two")
    stable_group(world, a, b)
    world.sleep(9_000)
    a.heartbeat()
    again = restarted(b)
    again.request_join()
    response = again.joined()
    assert response is not None
    assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 1)
    assert response.member_id != b.member_id
    assert (response.leader, response.members, response.skip_assignment) == (a.member_id, (), False)
    again.sync()
    synced = again.synced()
    assert synced is not None
    assert synced.assignment == assignment("t", 1)
    assert a.heartbeat() is ErrorCode.NONE
    assert len(world.noted(RebalanceStarted)) == 1
    assert not world.noted(StaticMemberReturned)[-1].rebalances


def test_a_new_id_of_a_static_member_is_logged_with_the_old_assignment() -> None:
    world = World()
    a, b = Client(world, "a", instance="one"), Client(world, "b")
    stable_group(world, a, b)
    since_ms = world.core.groups["g"].state_since_ms
    world.sleep(1_000)
    again = restarted(a)
    again.join()
    again.joined()
    value = world.log[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert value.leader == again.member_id
    assert [(each.member_id, each.assignment) for each in value.members] == [
        (again.member_id, assignment("t", 0)),
        (b.member_id, assignment("t", 1)),
    ]
    assert value.current_state_timestamp == since_ms


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.requirement("R12")
def test_a_static_leader_that_returns_does_not_assign_again(version: int) -> None:
    world = World()
    a, b = Client(world, "a", instance="one", version=version), Client(world, "b")
    stable_group(world, a, b)
    again = restarted(a)
    again.join()
    response = again.joined()
    assert response is not None
    if version == 9:  # KIP-814: it leads, and knows the members, but skips the assignment.
        assert (response.leader, response.skip_assignment) == (again.member_id, True)
        assert len(response.members) == 2
    else:  # It is told the leader that it was, so it takes itself for a follower.
        assert (response.leader, response.skip_assignment, response.members) == (a.member_id, False, ())
    again.sync()
    synced = again.synced()
    assert synced is not None
    assert synced.assignment == assignment("t", 0)


@pytest.mark.requirement("R9", "R12")
def test_a_second_claimant_fences_the_first() -> None:
    world = World()
    a = Client(world, "a", instance="one")
    stable_group(world, a)
    claimant = restarted(a)
    claimant.join()
    assert claimant.joined() is not None
    assert a.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert a.commit("t", 0, 1) is ErrorCode.FENCED_INSTANCE_ID
    a.sync()
    synced = a.synced()
    assert synced is not None
    assert synced.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert a.leave() is ErrorCode.FENCED_INSTANCE_ID
    a.request_join()
    rejoined = a.joined()
    assert rejoined is not None
    assert rejoined.error_code == ErrorCode.FENCED_INSTANCE_ID
    fenced = world.noted(MemberFenced)[-1]
    assert (fenced.member_id, fenced.by_member_id) == (a.member_id, claimant.member_id)
    assert claimant.heartbeat() is ErrorCode.NONE


def test_a_parked_join_of_the_first_is_fenced() -> None:
    world = World()
    a, b = Client(world, "a", instance="one"), Client(world, "b")
    stable_group(world, a, b)
    a.join()
    claimant = restarted(a)
    claimant.request_join()
    response = a.joined()
    assert response is not None
    assert (response.error_code, response.member_id) == (ErrorCode.FENCED_INSTANCE_ID, a.member_id)
    b.join()
    sync_all(world, claimant, b)


def test_a_parked_sync_of_a_replaced_static_member_is_fenced_and_the_group_rebalances() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b", instance="two")
    a.join()
    b.join()
    world.sleep(6_000)
    a.joined()
    b.joined()
    b.sync()
    claimant = restarted(b)
    claimant.request_join()
    response = b.synced()
    assert response is not None
    assert response.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.state() == "PreparingRebalance"
    a.join()
    sync_all(world, a, claimant)


@pytest.mark.requirement("R12", "R13")
def test_a_static_member_that_is_away_longer_than_its_session_timeout_is_removed() -> None:
    world = World()
    a, b = Client(world, "a", instance="one"), Client(world, "b", session_timeout_ms=60_000)
    stable_group(world, a, b)
    world.sleep(10_000)
    assert a.member_id not in world.core.groups["g"].members
    b.join()
    again = restarted(a)
    again.join()
    b.join()
    sync_all(world, b, again)


def test_a_static_member_that_returns_with_other_protocols_rebalances() -> None:
    world = World()
    a = Client(world, "a", instance="one", protocols=("range", "sticky"))
    b = Client(world, "b", instance="two", protocols=("range", "sticky"))
    stable_group(world, a, b)
    fresh = Client(world, "a", instance="one", protocols=("sticky",))
    fresh.join()
    assert fresh.joined() is None
    assert world.state() == "PreparingRebalance"
    b.join()
    sync_all(world, b, fresh)
    assert world.classic().protocol_name == "sticky"


def test_the_first_claimants_session_timer_does_not_end_the_second() -> None:
    world = World()
    a = Client(world, "a", instance="one")
    stable_group(world, a)
    world.sleep(9_000)
    again = restarted(a)
    again.join()
    again.joined()
    world.sleep(9_000)
    assert again.heartbeat() is ErrorCode.NONE


def test_a_replacing_static_member_that_never_syncs_is_removed() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b", instance="two", rebalance_timeout_ms=60_000)
    a.join()
    b.join()
    world.sleep(6_000)
    a.joined()
    b.joined()
    a.sync({b.member_id: assignment("t", 1)})
    again = restarted(b)
    again.join()
    again.joined()
    for _ in range(12):
        world.sleep(5_000)
        a.heartbeat()
        again.heartbeat()
    assert again.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
