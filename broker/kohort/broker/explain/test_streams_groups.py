"""Rebalances of streams groups explained: why, whom the others waited for, which tasks moved."""

from kohort.broker.explain.advice import advise
from kohort.broker.explain.events import RebalanceCompleted, RebalanceReport
from kohort.broker.explain.story import story
from kohort.broker.group.events import CauseKind, RebalanceStarted
from kohort.broker.group.rebalance_facts import Outcome
from kohort.broker.group.streams.test_world import WORD_COUNT, StreamsWorld, Thread, settled


def last_report(world: StreamsWorld) -> RebalanceReport:
    view = world.view()
    assert view.rebalance is None
    report = view.history[-1]
    assert world.noted(RebalanceCompleted)[-1].report == report
    return report


def waits(world: StreamsWorld) -> dict[str, str | None]:
    view = world.view()
    return {each.member_id: each.waits_for for each in view.members}


def test_a_first_and_a_second_member_join() -> None:
    world = StreamsWorld(t=4)
    one, two = Thread(world, "one"), Thread(world, "two")
    one.join()
    first = last_report(world)
    assert (first.outcome, first.generation_id, first.is_initial) == (Outcome.STABLE, 2, True)
    assert [(each.from_member_id, each.to_member_id) for each in first.moves] == [(None, "one")] * 4
    two.join()
    world.sleep(2_000)
    settled(one, two)
    report = last_report(world)
    assert (report.cause.kind, report.cause.member_id, report.generation_id) == (
        CauseKind.MEMBER_JOINED,
        "two",
        3,
    )
    assert [(each.member_id, each.waited_ms, each.joined) for each in report.waited_for] == [
        ("one", 2_000, True)
    ]
    assert {(each.from_member_id, each.to_member_id) for each in report.moves} == {("one", "two")}
    assert len(world.noted(RebalanceStarted)) == 2
    assert "two" in " ".join(story(report, advise(report, ())))


def test_a_member_that_keeps_a_task_is_named_during_the_rebalance() -> None:
    world = StreamsWorld(t=2)
    one, two = Thread(world, "one"), Thread(world, "two")
    one.join()
    two.join()
    one.heartbeat()
    two.heartbeat()
    world.sleep(1_000)
    view = world.view()
    assert view.rebalance is not None
    assert (view.rebalance.waits_for_member_ids, view.rebalance.ongoing_ms) == (("one",), 1_000)
    told = waits(world)
    assert told["one"] in ("itself: it has yet to give up task 0_0", "itself: it has yet to give up task 0_1")
    assert told["two"] == (told["one"] or "").replace("itself: it has", "one, which has")


def test_an_expired_member_was_waited_for_in_vain() -> None:
    world = StreamsWorld(t=2)
    one, two = Thread(world, "one"), Thread(world, "two")
    one.join()
    two.join()
    for _ in range(5):  # One says nothing any more.
        world.sleep(10_000)
        two.heartbeat()
    settled(two)
    report = last_report(world)
    assert "one" in report.removed_member_ids
    assert {each.to_member_id for each in report.moves} == {"two"}
    causes = {each.kind for each in (report.cause, *report.further_causes)}
    assert CauseKind.MEMBER_EXPIRED in causes


def test_a_member_waits_for_missing_topics() -> None:
    world = StreamsWorld(t=2)
    one = Thread(world, "one", topology=WORD_COUNT)
    one.join()
    assert (waits(world)["one"] or "").startswith("topics: Internal topics are missing")
    world.make_topics()
    settled(one)
    assert waits(world) == {"one": None}
    causes = {each.report.cause.kind for each in world.noted(RebalanceCompleted)}
    assert causes <= {CauseKind.MEMBER_JOINED, CauseKind.METADATA_CHANGED}
    assert {each.to_member_id for each in last_report(world).moves} == {"one"}


def test_a_static_member_that_returns_causes_no_rebalance() -> None:
    world = StreamsWorld(t=4)
    one, two = Thread(world, "one", instance="i"), Thread(world, "two")
    one.join()
    two.join()
    settled(one, two)
    begun = len(world.noted(RebalanceStarted))
    one.leave(-2)
    heir = Thread(world, "heir", "process-one", instance="i")
    heir.join()
    settled(heir, two)
    assert len(world.noted(RebalanceStarted)) == begun
