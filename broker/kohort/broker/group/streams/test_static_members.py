"""Members of streams groups that keep their tasks while they are away, by group.instance.id (Kafka 4.4)."""

from kohort.broker.group import GroupConfig
from kohort.broker.group.events import MemberExpired, MemberLeft, StaticMemberReturned
from kohort.broker.group.state import GroupState
from kohort.broker.group.streams.tasks import Task
from kohort.broker.group.streams.test_heartbeats import running
from kohort.broker.group.streams.test_world import COUNT, StreamsWorld, Thread, settled
from kohort.protocol.errors import ErrorCode

AWAY = -2


def pair(world: StreamsWorld) -> tuple[Thread, Thread]:
    """A static member and another one, each with its half."""
    one, two = Thread(world, "one", instance="i"), Thread(world, "two")
    for each in (one, two):
        assert each.join() is ErrorCode.NONE
    settled(one, two)
    assert (len(one.active), len(two.active)) == (2, 2)
    return one, two


def test_a_returning_static_member_gets_its_tasks_without_a_rebalance() -> None:
    world = StreamsWorld(t=4)
    one, two = pair(world)
    had, epoch = set(one.active), world.group().epoch
    assert one.leave(AWAY) is ErrorCode.NONE
    assert (one.last.member_epoch, world.group().epoch) == (AWAY, epoch)
    assert world.noted(MemberLeft)[-1].group_instance_id == "i"
    assert two.heartbeat() is ErrorCode.NONE
    assert two.last.active_tasks is None
    heir = Thread(world, "heir", "process-one", instance="i")
    assert heir.join() is ErrorCode.NONE
    assert (heir.active, heir.epoch, world.group().epoch) == (had, epoch, epoch)
    assert world.group().state is GroupState.STABLE
    assert world.group().members.keys() == {"heir", "two"}
    assert world.group().targets.keys() == {"heir", "two"}
    (returned,) = world.noted(StaticMemberReturned)
    assert (returned.former_member_id, returned.member_id, returned.rebalances) == ("one", "heir", False)
    assert one.heartbeat(active_tasks=(), standby_tasks=(), warmup_tasks=()) is ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_returns_on_another_process_keeps_its_tasks_in_a_new_epoch() -> None:
    world = StreamsWorld(t=4)
    one, two = pair(world)
    had, epoch = set(one.active), world.group().epoch
    one.leave(AWAY)
    heir = Thread(world, "heir", "elsewhere", instance="i")
    assert heir.join() is ErrorCode.NONE
    assert world.group().epoch == epoch + 1
    settled(heir, two)
    assert heir.active == had
    assert {world.group().active_process(task) for task in had} == {"elsewhere"}


def test_an_absent_static_member_is_removed_when_its_session_ends() -> None:
    world = StreamsWorld(t=4)
    one, two = pair(world)
    one.leave(AWAY)
    for _ in range(4):
        world.sleep(15_000)
        assert two.tell() is ErrorCode.NONE
    settled(two)
    assert two.active == {Task("0", index) for index in range(4)}
    assert world.noted(MemberExpired)[-1].group_instance_id == "i"
    assert world.group().instances == {}


def test_an_instance_id_in_use_is_refused() -> None:
    world = StreamsWorld(t=4)
    one, _ = pair(world)
    second = Thread(world, "second", instance="i")
    assert second.join() is ErrorCode.UNRELEASED_INSTANCE_ID
    assert one.heartbeat() is ErrorCode.NONE
    assert one.join() is ErrorCode.NONE, "the same process, whose answer was lost"
    assert (len(one.active), world.group().member_count) == (2, 2)


def test_an_unknown_name_is_refused() -> None:
    world = StreamsWorld(t=4)
    one, _ = pair(world)
    assert one.heartbeat(instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert one.send(-1, instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    assert one.send(AWAY, instance_id="nobody") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_leaves_for_good_frees_its_tasks() -> None:
    world = StreamsWorld(t=4)
    one, two = pair(world)
    assert one.leave() is ErrorCode.NONE
    settled(two)
    assert len(two.active) == 4
    assert world.group().instances == {}


def test_the_next_coordinator_knows_absent_static_members() -> None:
    world = StreamsWorld(t=4)
    one, two = pair(world)
    had = set(one.active)
    one.leave(AWAY)
    world.restart()
    heir = Thread(world, "heir", "process-one", instance="i")
    assert heir.join() is ErrorCode.NONE
    assert heir.active == had
    settled(heir, two)


def test_a_full_group_accepts_a_returning_static_member() -> None:
    config = GroupConfig(
        group_streams_max_size=2,
        group_streams_assignment_interval_ms=0,
        group_streams_initial_rebalance_delay_ms=0,
    )
    world = StreamsWorld(config, t=4)
    one, _ = pair(world)
    one.leave(AWAY)
    assert Thread(world, "third").join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert Thread(world, "heir", "process-one", instance="i").join() is ErrorCode.NONE


def test_a_static_member_that_had_to_revoke_tasks_returns_without_them() -> None:
    world = StreamsWorld(t=4)
    one = running(world, "one", topology=COUNT, instance="i")[0]
    two = Thread(world, "two", topology=COUNT)
    assert two.join() is ErrorCode.NONE
    assert one.heartbeat() is ErrorCode.NONE
    assert len(one.active) == 2, "it is asked for the other two"
    one.leave(AWAY)
    assert two.tell() is ErrorCode.NONE
    assert len(two.active) == 2, "they are free: who is away runs nothing"
    heir = Thread(world, "heir", "process-one", topology=COUNT, instance="i")
    assert heir.join() is ErrorCode.NONE
    settled(heir, two)
    assert heir.active == one.active


def test_a_member_that_rejoins_with_another_instance_id_frees_the_former_one() -> None:
    world = StreamsWorld(t=4)
    one, two = pair(world)
    one.instance = "j"
    assert one.join() is ErrorCode.NONE
    assert world.group().instances == {"j": "one"}
    assert one.leave() is ErrorCode.NONE
    assert Thread(world, "three", instance="i").join() is ErrorCode.NONE
    assert world.group().instances == {"i": "three"}
    assert two.tell() is ErrorCode.NONE


def test_an_absent_static_member_with_tasks_to_revoke_has_a_session_after_a_load() -> None:
    world = StreamsWorld(
        GroupConfig(
            group_streams_assignment_interval_ms=0,
            group_streams_initial_rebalance_delay_ms=0,
            group_streams_session_timeout_ms=60_000,
        ),
        t=4,
    )
    one, two = Thread(world, "one", instance="i"), Thread(world, "two")
    assert (
        one.send(
            0,
            rebalance_timeout_ms=1_000,
            topology=one.topology,
            process_id="process-one",
            active_tasks=(),
            standby_tasks=(),
            warmup_tasks=(),
        )
        is ErrorCode.NONE
    )
    assert two.join() is ErrorCode.NONE
    one.heartbeat()
    assert world.group().members["one"].is_revoking
    assert one.leave(AWAY) is ErrorCode.NONE
    world.restart()
    world.sleep(2_000)
    assert "one" in world.group().members
    world.sleep(60_000)
    assert "one" not in world.group().members
