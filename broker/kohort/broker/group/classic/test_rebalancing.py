import pytest

from kohort.broker.explain.events import JoinCompleted
from kohort.broker.group import GroupConfig
from kohort.broker.group.events import GroupEmptied, LeaderElected, MemberExpired
from kohort.broker.group.test_world import Client, World, stable_group, sync_all
from kohort.protocol.errors import ErrorCode


@pytest.mark.requirement("R4")
def test_a_new_group_waits_for_the_initial_delay() -> None:
    world = World()
    client = Client(world)
    client.join()
    world.sleep(2_999)
    assert client.joined() is None
    world.sleep(1)
    assert client.joined() is not None


@pytest.mark.requirement("R4")
def test_a_new_group_waits_longer_while_members_keep_coming() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    a.join()
    world.sleep(2_000)
    b.join()
    world.sleep(1_000)
    assert a.joined() is None
    world.sleep(3_000)
    assert a.joined() is not None
    assert b.joined() is not None
    assert a.generation_id == b.generation_id == 1


@pytest.mark.requirement("R4")
def test_a_new_group_never_waits_past_the_rebalance_timeout() -> None:
    world = World()
    clients = [Client(world, f"c{number}", rebalance_timeout_ms=10_000) for number in range(20)]
    began_ms = world.now_ms
    for client in clients:
        client.join()
        world.sleep(1_000)
    assert clients[0].joined() is not None
    assert world.noted(JoinCompleted)[0].at_ms == began_ms + 10_000


def test_without_an_initial_delay_a_group_starts_at_once() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0))
    client = Client(world)
    client.join()
    world.sleep(0)
    assert client.joined() is not None


def test_last_expected_member_completes_the_join() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b)
    c.join()
    a.join()
    assert c.joined() is None
    world.sleep(500)
    b.join()
    sync_all(world, a, b, c)
    assert a.generation_id == 2
    waited = world.noted(JoinCompleted)[-1]
    assert waited.waited_ms == 500
    assert [(each.client_id, each.waited_ms, each.joined) for each in waited.waited_for] == [
        ("b", 500, True),
        ("a", 0, True),
    ]


@pytest.mark.requirement("R10")
def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    world = World()
    a = Client(world, "a", rebalance_timeout_ms=20_000)
    b = Client(world, "b", rebalance_timeout_ms=20_000, session_timeout_ms=30_000)
    c = Client(world, "c", rebalance_timeout_ms=20_000)
    stable_group(world, a, b)
    c.join()
    a.join()
    world.sleep(10_000)
    assert b.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    world.sleep(9_999)
    assert c.joined() is None
    world.sleep(1)
    sync_all(world, a, c)
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    out = world.noted(MemberExpired)[-1]
    assert (out.client_id, out.after_ms) == ("b", 10_000)
    report = world.history()[-1]
    assert report.removed_member_ids == (b.member_id,)
    assert [(each.client_id, each.joined) for each in report.waited_for] == [("b", False), ("a", True)]


def test_another_member_leads_when_the_leader_does_not_rejoin() -> None:
    world = World()
    a, b, c = Client(world, "a", session_timeout_ms=300_000), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b)
    c.join()
    b.join()
    world.sleep(60_000)
    sync_all(world, b, c)
    assert world.classic().leader == b.member_id


def test_an_absent_static_leader_stays_a_member_but_loses_the_lead() -> None:
    world = World()
    a = Client(world, "a", instance="one", session_timeout_ms=300_000)
    b, c = Client(world, "b"), Client(world, "c")
    stable_group(world, a, b)
    c.join()
    b.join()
    world.sleep(60_000)
    group = world.classic()
    assert world.state() == "CompletingRebalance"
    assert group.leader == b.member_id
    assert a.member_id in group.members
    assert world.noted(LeaderElected)[-1].former_leader == a.member_id


def test_a_group_of_absent_static_members_waits_on() -> None:
    world = World()
    a = Client(world, "a", instance="one", session_timeout_ms=300_000)
    b = Client(world, "b")
    stable_group(world, a, b)
    b.leave()
    world.sleep(60_000)
    assert world.state() == "PreparingRebalance"
    a.join()
    sync_all(world, a)


def test_a_group_whose_members_have_all_left_is_empty_in_the_next_generation() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    a.leave()
    assert world.state() == "Empty"
    group = world.classic()
    assert group.generation_id == 2
    assert group.metadata is not None
    assert (group.metadata.members, group.metadata.protocol, group.metadata.leader) == ((), None, None)
    assert group.metadata.current_state_timestamp == world.now_ms
    assert world.noted(GroupEmptied)[-1].generation_id == 2


def test_a_member_that_joins_an_empty_group_starts_the_next_generation() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b", protocols=("sticky",))
    stable_group(world, a)
    a.leave()
    stable_group(world, b)
    assert b.generation_id == 3
    assert world.classic().protocol_name == "sticky"


def test_new_members_can_leave_during_the_initial_delay() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    a.join()
    b.join()
    b.leave()
    assert a.joined() is None
    a.leave()
    assert world.state() == "PreparingRebalance"
    world.sleep(60_000)
    assert world.state() == "Empty"


def test_a_new_member_that_waits_too_long_is_removed_completely() -> None:
    world = World()
    a, b = Client(world, "a", rebalance_timeout_ms=3_600_000), Client(world, "b")
    stable_group(world, a)
    b.join()
    for _ in range(60):  # A lives, but never rejoins: after five minutes b has waited enough.
        world.sleep(5_000)
        a.heartbeat()
    response = b.joined()
    assert response is not None
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
