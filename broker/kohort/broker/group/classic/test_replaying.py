from kohort.broker.group import GroupConfig, GroupCoordinator, Record
from kohort.broker.group.events import CauseKind, GroupLoaded, RebalanceStarted
from kohort.broker.group.test_world import (
    Client,
    World,
    logged_state,
    stable_group,
    subscription,
    sync_all,
)
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol
from kohort.protocol.offsets_topic import OffsetCommitKey, OffsetCommitValue


def test_members_go_on_with_their_generation_after_a_restart() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b", instance="two")
    stable_group(world, a, b)
    a.commit("t", 0, 42)
    world.restart()
    assert world.state() == "Stable"
    assert a.heartbeat() is ErrorCode.NONE
    assert b.heartbeat() is ErrorCode.NONE
    assert a.commit("t", 0, 43) is ErrorCode.NONE
    assert world.fetch("t", 0) == 43
    assert len(world.noted(RebalanceStarted)) == 1
    assert [(each.generation_id, each.members) for each in world.noted(GroupLoaded)] == [(1, 2)]


def test_members_that_do_not_return_after_a_restart_expire() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    world.restart()
    world.sleep(9_000)
    assert a.heartbeat() is ErrorCode.NONE
    world.sleep(1_000)
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    sync_all(world, a)
    assert a.generation_id == 2


def test_a_restart_during_a_rebalance_restores_the_last_stable_generation() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    a.join()
    assert world.state() == "CompletingRebalance"
    world.restart()
    assert world.state() == "Stable"
    assert world.core.groups["g"].generation_id == 1
    a.generation_id = 1
    assert a.heartbeat() is ErrorCode.NONE
    b.request_join()
    response = b.joined()
    assert response is not None
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_returns_after_a_restart_without_a_rebalance() -> None:
    world = World()
    a = Client(world, "a", instance="one")
    stable_group(world, a)
    world.restart()
    again = Client(world, "a", instance="one")
    again.join()
    response = again.joined()
    assert response is not None
    assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 1)


def test_an_empty_group_keeps_its_generation_after_a_restart() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    a.leave()
    world.restart()
    assert world.state() == "Empty"
    stable_group(world, fresh := Client(world, "b"))
    assert fresh.generation_id == 3


def test_a_log_of_many_generations_loads_the_last() -> None:
    world = World()
    a, b = Client(world, "a", instance="one"), Client(world, "b")
    stable_group(world, a, b)
    a.protocols = (JoinGroupRequestProtocol(name="range", metadata=subscription("t", "u")),)
    a.join()
    b.join()
    sync_all(world, a, b)
    again = Client(world, "a", instance="one", topics=("t", "u"))
    again.join()
    again.joined()
    b.leave()
    again.join()
    sync_all(world, again)
    before = logged_state(world.core)
    world.restart()
    assert logged_state(world.core) == before
    group = world.classic()
    assert list(group.members) == [again.member_id]
    assert group.static_members == {"one": again.member_id}
    assert group.protocol_counts == {"range": 1}
    assert group.leader == again.member_id


def test_a_loaded_group_over_capacity_rebalances() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b, c)
    world.config = GroupConfig(group_max_size=2)
    world.restart()
    assert world.noted(RebalanceStarted)[-1].cause.kind is CauseKind.OVER_CAPACITY
    a.join()
    b.join()
    c.request_join()
    refused = c.joined()
    assert refused is not None
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    sync_all(world, a, b)


def test_tombstones_for_unknown_keys_change_nothing() -> None:
    core = GroupCoordinator(GroupConfig())
    core.replay(Record(OffsetCommitKey(group="g", topic="t", partition=0), None))
    assert core.groups == {}
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1)
    core.replay(Record(OffsetCommitKey(group="g", topic="t", partition=0), value))
    core.replay(Record(OffsetCommitKey(group="g", topic="t", partition=1), None))
    assert core.groups["g"].offsets == {"t": {0: value}}
    core.replay(Record(OffsetCommitKey(group="g", topic="t", partition=0), None))
    assert core.groups["g"].offsets == {}
