"""A story put together from events says what the core itself knows."""

import msgspec
import pytest

from kohort.broker.explain.events import AnyEvent
from kohort.broker.explain.timeline import Timeline, read_event
from kohort.broker.group import Event
from kohort.broker.group.events import GroupLoaded
from kohort.broker.group.test_world import Client, World, stable_group, sync_all


def told(world: World, kept: int = 100) -> Timeline:
    timeline = Timeline(kept)
    for event in world.events:
        timeline.add(event)
    return timeline


def missing_by_core(world: World) -> set[str]:
    view = world.view()
    assert view.rebalance is not None
    return set(view.rebalance.waits_for_member_ids)


def missing_by_events(world: World) -> set[str]:
    ongoing = told(world).ongoing
    assert ongoing is not None
    return set(ongoing.missing)


def test_the_reports_equal_those_of_the_core() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    b.leave()
    a.join()
    sync_all(world, a)
    timeline = told(world)
    assert list(timeline.reports) == list(world.history())
    assert timeline.ongoing is None
    assert [each.generation_id for each in told(world, kept=1).reports] == [2]


def test_missing_members_equal_those_of_the_core() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b, c)
    d = Client(world, "d")
    d.join()
    assert missing_by_events(world) == missing_by_core(world) == {a.member_id, b.member_id, c.member_id}
    a.join()
    assert missing_by_events(world) == missing_by_core(world) == {b.member_id, c.member_id}
    Client(world, "e").request_join()
    assert missing_by_events(world) == missing_by_core(world)
    assert len(missing_by_events(world)) == 3
    b.leave()
    assert missing_by_events(world) == missing_by_core(world)
    assert b.member_id not in missing_by_events(world)


def test_the_leader_is_the_missing_member_while_it_assigns() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    world.sleep(500)
    a.join()
    ongoing = told(world).ongoing
    assert ongoing is not None
    assert ongoing.is_assigning
    assert ongoing.missing == {a.member_id: world.now_ms}


def test_only_a_load_by_another_broker_is_a_fail_over() -> None:
    timeline = Timeline(2)
    for former_node_id in (-1, 2, 3):
        taken_over = GroupLoaded(
            group_id="g", at_ms=7, generation_id=1, members=1, node_id=2, former_node_id=former_node_id
        )
        event = read_event(msgspec.json.encode(taken_over))
        assert event == taken_over
        timeline.add(taken_over)
    assert [each.former_node_id for each in timeline.fail_overs] == [3]


def test_a_rebalance_does_not_outlive_the_coordinator() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    assert told(world).ongoing is not None
    world.restart()
    assert told(world).ongoing is None


def test_a_static_member_that_returns_is_waited_for_under_its_new_id() -> None:
    world = World()
    a = Client(world, "a")
    s = Client(world, "s", instance="one")
    stable_group(world, a, s)
    b = Client(world, "b")
    b.join()
    assert missing_by_events(world) == {a.member_id, s.member_id}
    again = Client(world, "s", instance="one")
    again.join()
    assert missing_by_events(world) == missing_by_core(world) == {a.member_id}


def test_every_event_survives_its_json_form() -> None:
    world = World()
    a, s = Client(world, "a"), Client(world, "s", instance="one")
    stable_group(world, a, s)
    Client(world, "s", instance="one").join()
    world.sleep(20_000)
    assert len(world.events) > 8
    assert [read_event(msgspec.json.encode(each)) for each in world.events] == world.events


def test_every_kind_of_event_can_be_read() -> None:
    def kinds(of: type[Event]) -> set[type[Event]]:
        return {each for kind in of.__subclasses__() for each in (kind, *kinds(kind))}

    can_happen = {each for each in kinds(Event) if not each.__subclasses__()}
    assert set(AnyEvent.__args__) == can_happen


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b'{"event":"FromTheFuture","group_id":"g","at_ms":1}', b"\xff", b"{}"]
)
def test_an_unknown_event_is_skipped(value: bytes) -> None:
    assert read_event(value) is None
