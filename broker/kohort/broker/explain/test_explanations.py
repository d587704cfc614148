import msgspec
import pytest

from kohort.broker.explain.events import Move, RebalanceCompleted
from kohort.broker.explain.history import REBALANCES_KEPT
from kohort.broker.group.events import CauseKind, RebalanceStarted
from kohort.broker.group.rebalance_facts import Outcome
from kohort.broker.group.test_world import Client, World, assignment, stable_group, subscription, sync_all
from kohort.protocol.consumer import TopicPartitions
from kohort.protocol.messages.join_group import JoinGroupRequestProtocol


@pytest.mark.requirement("R8")
def test_a_rebalance_is_explained_from_cause_to_moves() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    world.sleep(1_000)
    started_ms = world.now_ms
    b.join("need more hands")
    world.sleep(2_000)
    a.join()
    assert a.joined() is not None
    assert b.joined() is not None
    b.sync()
    world.sleep(500)
    a.sync({a.member_id: assignment("t", 1), b.member_id: assignment("t", 0)})
    report = world.history()[-1]
    assert world.noted(RebalanceCompleted)[-1].report is report
    assert report.outcome is Outcome.STABLE
    assert (report.cause.kind, report.cause.client_id) == (CauseKind.MEMBER_JOINED, "b")
    assert report.cause.reason == "need more hands"
    assert (report.generation_id, report.members, report.leader) == (2, 2, a.member_id)
    assert (report.started_ms, report.join_ms, report.sync_ms) == (started_ms, 2_000, 500)
    assert report.still_ms == 2_500
    assert [(each.client_id, each.waited_ms) for each in report.waited_for] == [("a", 2_000)]
    assert report.moves == (
        Move("t", 0, a.member_id, b.member_id, 500),
        Move("t", 1, None, a.member_id, 2_500),
    )


def test_partitions_of_an_expired_member_stood_still_since_its_last_request() -> None:
    world = World()
    a, b = Client(world, "a", session_timeout_ms=60_000), Client(world, "b", session_timeout_ms=10_000)
    stable_group(world, a, b)
    world.sleep(10_000)
    a.join()
    world.sleep(100)
    sync_all(world, a)
    report = world.history()[-1]
    assert (report.cause.kind, report.cause.after_ms) == (CauseKind.MEMBER_EXPIRED, 10_000)
    assert [(each.from_member_id, each.to_member_id, each.still_ms) for each in report.moves] == [
        (b.member_id, None, 10_100)
    ]


def test_further_joins_and_leaves_are_further_causes() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b)
    c.join()
    world.sleep(1_000)
    b.leave("closed")
    a.join()
    sync_all(world, a, c)
    report = world.history()[-1]
    assert [(each.kind, each.client_id) for each in report.further_causes] == [(CauseKind.MEMBER_LEFT, "b")]
    waits = [(each.client_id, each.waited_ms, each.joined) for each in report.waited_for]
    assert waits == [("b", 1_000, False), ("a", 1_000, True)]


@pytest.mark.requirement("R8")
def test_revoking_partitions_is_distinguished_from_a_new_subscription() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    owned = (TopicPartitions(topic="t", partitions=(1,)),)
    b.protocols = (JoinGroupRequestProtocol(name="range", metadata=subscription("t", owned=owned)),)
    b.join()
    rebalance = world.journal.ongoing("g")
    assert rebalance is not None
    assert rebalance.cause.kind is CauseKind.OWNERSHIP_CHANGED


def test_the_view_of_a_rebalance_under_way_names_the_members_it_waits_for() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b)
    c.join()
    a.join()
    world.sleep(700)
    view = world.view()
    assert view.rebalance is not None
    assert view.state == "PreparingRebalance"
    assert view.rebalance.cause.client_id == "c"
    assert view.rebalance.ongoing_ms == 700
    assert view.rebalance.waits_for_member_ids == (b.member_id,)
    assert [(each.client_id, each.waits_for) for each in view.members] == [
        ("a", "JoinGroup"),
        ("b", None),
        ("c", "JoinGroup"),
    ]
    b.join()
    assert a.joined() is not None
    view = world.view()
    assert view.rebalance is not None
    assert set(view.rebalance.waits_for_member_ids) == {a.member_id, b.member_id, c.joined() and c.member_id}


def test_the_view_of_a_stable_group_shows_members_with_their_partitions() -> None:
    world = World()
    a = Client(world, "a", instance="one", topics=("t", "u"))
    stable_group(world, a)
    a.commit("t", 0, 1)
    world.sleep(4_000)
    view = world.view()
    assert (view.state, view.generation_id, view.committed_partitions, view.rebalance) == (
        "Stable",
        1,
        1,
        None,
    )
    (member,) = view.members
    assert (member.topics, member.partitions, member.is_leader) == (("t", "u"), (("t", 0),), True)
    assert member.session_left_ms == 6_000
    assert len(view.history) == 1
    assert world.history("none") == []


def test_bytes_that_are_no_consumer_protocol_do_no_harm() -> None:
    world = World()
    a = Client(world, "a")
    a.protocols = (JoinGroupRequestProtocol(name="range", metadata=b"\xff"),)
    a.join()
    world.sleep(3_000)
    a.joined()
    a.sync({a.member_id: b"?"})
    view = world.view()
    assert (view.members[0].topics, view.members[0].partitions) == ((), ())
    assert world.core.groups["g"].subscribes_to("anything"), "nobody can tell, so it may"
    assert view.history[-1].moves == ()


def test_only_the_newest_rebalances_are_kept() -> None:
    world = World()
    a = Client(world, "a")
    stable_group(world, a)
    for _ in range(REBALANCES_KEPT + 5):
        a.join()
        sync_all(world, a)
    history = world.history()
    assert len(history) == REBALANCES_KEPT
    assert history[-1].generation_id == REBALANCES_KEPT + 6


def test_events_and_views_can_be_written_as_json() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a, b)
    b.leave("bye")
    a.join()
    sync_all(world, a)
    written = [msgspec.json.decode(msgspec.json.encode(each)) for each in world.events]
    assert {each["event"] for each in written} >= {
        "MemberIdGiven",
        "MemberJoined",
        "MemberLeft",
        "MemberRejoined",
        "RebalanceStarted",
        "JoinCompleted",
        "RebalanceCompleted",
    }
    started = [each for each in written if each["event"] == "RebalanceStarted"]
    assert started[-1]["cause"]["kind"] == "a member left"
    view = msgspec.json.decode(msgspec.json.encode(world.view()))
    assert view["history"][-1]["outcome"] == "stable"


def test_a_rebalance_names_at_its_start_the_members_it_waits_for() -> None:
    world = World()
    a, b, c = Client(world, "a"), Client(world, "b"), Client(world, "c")
    stable_group(world, a, b)
    c.join()
    started = world.noted(RebalanceStarted)[-1]
    assert started.waits_for_member_ids == (a.member_id, b.member_id)
    assert started.cause.client_host == "/127.0.0.1"


def test_only_the_rebalance_of_an_empty_group_is_initial() -> None:
    world = World()
    a, b = Client(world, "a"), Client(world, "b")
    stable_group(world, a)
    b.join()
    a.join()
    sync_all(world, a, b)
    assert [each.is_initial for each in world.history()] == [True, False]
