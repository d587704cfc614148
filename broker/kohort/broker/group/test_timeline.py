"""A story put together from events says what the core itself knows."""

from kohort.broker.group.test_world import Client, World, stable_group, sync_all
from kohort.broker.group.timeline import Timeline


def told(world: World, kept: int = 100) -> Timeline:
    timeline = Timeline(kept)
    for event in world.events:
        timeline.add(event)
    return timeline


def missing_by_core(world: World) -> set[str]:
    view = world.core.describe("g", world.now_ms)
    assert view is not None
    assert view.rebalance is not None
    return set(view.rebalance.waits_for_member_ids)


def missing_by_events(world: World) -> set[str]:
    under_way = told(world).under_way
    assert under_way is not None
    return set(under_way.missing)


def test_the_reports_are_those_of_the_core() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    b.leave()
    a.join()
    sync_all(world, a)
    timeline = told(world)
    assert list(timeline.reports) == list(world.core.groups["g"].history)
    assert timeline.under_way is None
    assert [each.generation_id for each in told(world, kept=1).reports] == [2]


def test_who_is_missing_is_told_as_the_core_tells_it() -> None:
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


def test_while_the_leader_assigns_it_is_the_one_that_is_missing() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    world.sleep(500)
    a.join()
    under_way = told(world).under_way
    assert under_way is not None
    assert under_way.is_assigning
    assert under_way.missing == {a.member_id: world.now_ms}


def test_a_rebalance_does_not_outlive_the_coordinator() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    assert told(world).under_way is not None
    world.restart()
    assert told(world).under_way is None


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
