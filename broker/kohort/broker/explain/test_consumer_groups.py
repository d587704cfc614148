"""Rebalances of consumer groups explained: why, whom the others waited for, what moved."""

from kohort.broker.explain.advice import advise
from kohort.broker.explain.events import RebalanceCompleted, RebalanceReport
from kohort.broker.explain.rebalance import Rebalance
from kohort.broker.explain.story import story
from kohort.broker.group.consumer.test_migrating import Classic, come_to_rest
from kohort.broker.group.consumer.test_world import Consumer, ConsumerWorld, settle
from kohort.broker.group.events import Cause, CauseKind, RebalanceStarted
from kohort.broker.group.rebalance_facts import Outcome


def last_report(world: ConsumerWorld) -> RebalanceReport:
    view = world.view()
    assert view.rebalance is None
    report = view.history[-1]
    assert world.noted(RebalanceCompleted)[-1].report == report
    return report


def test_a_first_and_a_second_member_join() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    first = last_report(world)
    assert (first.outcome, first.generation_id, first.is_initial) == (Outcome.STABLE, 2, True)
    assert [(each.from_member_id, each.to_member_id) for each in first.moves] == [(None, "one")] * 4
    two.join()
    one.heartbeat()
    world.sleep(2_000)
    settle(one, two)
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


def test_a_member_that_keeps_a_partition_is_named_during_the_rebalance() -> None:
    world = ConsumerWorld(t=2)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    one.stubborn = True
    two.join()
    one.heartbeat()
    two.heartbeat()
    world.sleep(1_000)
    view = world.view()
    assert view.rebalance is not None
    assert (view.rebalance.waits_for_member_ids, view.rebalance.ongoing_ms) == (("one",), 1_000)
    waits = {each.member_id: each.waits_for for each in view.members}
    assert waits["one"] in ("itself: it has yet to give up t-0", "itself: it has yet to give up t-1")
    assert waits["two"] == (waits["one"] or "").replace("itself: it has", "one, which has")


def test_member_that_does_not_revoke_is_fenced_after_rebalance_timeout() -> None:
    world = ConsumerWorld(t=2)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    one.stubborn = True
    two.join()
    for _ in range(7):
        one.heartbeat()
        two.heartbeat()
        world.sleep(10_000)
    settle(two)
    report = last_report(world)
    assert [each.kind for each in report.further_causes] == [CauseKind.MEMBER_DID_NOT_COME]
    assert [(each.member_id, each.waited_ms, each.joined) for each in report.waited_for] == [
        ("one", 60_000, False)
    ]
    assert report.removed_member_ids == ("one",)


def test_silence_topics_and_leaving_are_causes_and_the_last_leave_empties_the_group() -> None:
    world = ConsumerWorld(t=4)
    one, two = Consumer(world, "one"), Consumer(world, "two")
    one.join()
    two.join()
    settle(one, two)
    world.change(t=5)
    settle(one, two)
    assert last_report(world).cause.kind is CauseKind.METADATA_CHANGED
    for _ in range(5):
        world.sleep(10_000)
        one.heartbeat()
    report = last_report(world)
    assert (report.cause.kind, report.cause.after_ms) == (CauseKind.MEMBER_EXPIRED, 45_000)
    assert [each.member_id for each in report.waited_for] == ["one"]
    assert {each.to_member_id for each in report.moves} == {"one"}
    one.leave()
    report = last_report(world)
    assert (report.outcome, report.cause.kind) == (Outcome.EMPTY, CauseKind.MEMBER_LEFT)


def test_a_group_with_classic_members_is_explained_in_the_same_way() -> None:
    world = ConsumerWorld(t=4)
    old, new = Classic(world, "old"), Consumer(world, "new")
    come_to_rest(world, old)
    come_to_rest(world, old, new)
    report = last_report(world)
    assert [each.member_id for each in report.waited_for] == [old.member_id]
    lines = story(report, advise(report, ()))
    assert f"  epoch {report.generation_id}, stable after " in lines[0]
    assert lines[1] == "  Cause: new joined."
    assert lines[2] == "  Assigned after 0 ms: 2 members, uniform (by the broker)."
    assert "it waited for old" in lines[3]


def test_a_static_member_that_returns_during_a_rebalance_was_not_waited_for_in_vain() -> None:
    world = ConsumerWorld(t=2)
    one, two = Consumer(world, "one", instance="a"), Consumer(world, "two")
    one.join()
    one.stubborn = True
    two.join()
    one.heartbeat()
    one.leave(-2)
    world.sleep(1_000)
    back = Consumer(world, "back", instance="a")
    back.join()
    settle(back, two)
    report = last_report(world)
    assert [(each.member_id, each.waited_ms, each.joined) for each in report.waited_for] == [
        ("back", 1_000, True)
    ]
    assert {(each.from_member_id, each.to_member_id) for each in report.moves} == {("one", "two")}


def test_members_that_join_and_leave_in_a_long_rebalance_use_no_memory_afterwards() -> None:
    rebalance = Rebalance(
        Cause(kind=CauseKind.MEMBER_JOINED, at_ms=0), 0, {"slow": "client"}, is_initial=False
    )
    for number in range(3_000):
        rebalance.joined_ms[f"member-{number}"] = number
        rebalance.remove_member(f"member-{number}", number, is_expired=True)
    rebalance.remove_member("slow", 5_000, is_expired=False)
    assert (rebalance.joined_ms, rebalance.gone_ms) == ({}, {"slow": 5_000})
    assert len(rebalance.removed) == 1_000


def test_a_rebalance_ends_when_the_group_becomes_classic() -> None:
    world = ConsumerWorld(t=4)
    old, new, other = Classic(world, "old"), Consumer(world, "new"), Classic(world, "other")
    come_to_rest(world, old)
    come_to_rest(world, old, new)
    come_to_rest(world, old, new, other)
    started = len(world.noted(RebalanceStarted))
    new.leave()
    come_to_rest(world, old, other)
    completed = world.noted(RebalanceCompleted)
    assert len(completed) == len(world.noted(RebalanceStarted)), "each rebalance that began has ended"
    outcomes = [each.report.outcome for each in completed[started:]]
    assert outcomes == [Outcome.RESTARTED, Outcome.STABLE]
