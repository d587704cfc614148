"""A story is read by a person: these are whole ones, word for word."""

import re

import msgspec

from kohort.broker.explain.advice import Advice, AdviceKind
from kohort.broker.explain.events import Move, RebalanceReport, Waited
from kohort.broker.explain.story import began, still_missing, story
from kohort.broker.explain.timeline import OngoingRebalance
from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.group.rebalance_facts import Outcome

A = "worker-a-11111111-0000-0000-0000-000000000000"
B = "worker-b-22222222-0000-0000-0000-000000000000"
C = "worker-c-33333333-0000-0000-0000-000000000000"


def a_report(**changes: object) -> RebalanceReport:
    fields: dict[str, object] = {
        "outcome": Outcome.STABLE,
        "generation_id": 8,
        "cause": Cause(CauseKind.MEMBER_EXPIRED, 1_000, B, "worker-b", after_ms=45_000),
        "further_causes": (),
        "started_ms": 1_000,
        "join_ms": 5_200,
        "sync_ms": 80,
        "still_ms": 5_280,
        "members": 2,
        "leader": A,
        "protocol_name": "range",
        "waited_for": (Waited(C, "worker-c", 5_200, True), Waited(A, "worker-a", 400, True)),
        "removed_member_ids": (),
        "moves": (
            Move("orders", 0, B, A, 50_280),
            Move("orders", 1, B, A, 50_280),
            Move("orders", 2, B, A, 50_280),
            Move("orders", 5, B, C, 50_280),
            Move("trips", 5, None, C, 5_280),
        ),
    }
    return RebalanceReport(**(fields | changes))  # type: ignore[arg-type]


def told(report: RebalanceReport, *advice: Advice) -> list[str]:
    first, *rest = story(report, advice)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", first)
    return [first[21:], *rest]


def test_an_expired_member_is_described_with_its_partitions() -> None:
    advice = Advice(AdviceKind.SLOW_MEMBER, "max.poll.records", "Fewer at a time.", "worker-c")
    assert told(a_report(), advice) == [
        "generation 8, stable after 5.3 s",
        "  Cause: worker-b-22222222 missed its session timeout: nothing was heard of it for 45 s.",
        "  Joining took 5.2 s: it waited for worker-c-33333333 (5.2 s), worker-a-11111111 (0.4 s).",
        "  Assigning took 80 ms: worker-a-11111111 leads 2 members, range.",
        "  range pauses every member, here 4.9 s.",
        "  5 partitions moved, read by nobody for up to 50 s:",
        "    orders 0-2  worker-b-22222222 -> worker-a-11111111  50 s",
        "    orders 5  worker-b-22222222 -> worker-c-33333333  50 s",
        "    trips 5  nobody -> worker-c-33333333  5.3 s",
        "  What to change: Fewer at a time.",
    ]


def test_a_member_that_died_is_not_described_as_silent() -> None:
    died = Cause(CauseKind.MEMBER_EXPIRED, 1_000, B, "worker-b", after_ms=6_000, connection_closed_ms=5_800)
    assert told(a_report(cause=died))[1] == (
        "  Cause: worker-b-22222222 died, or was cut off from the network: its connection closed 5.8 s "
        "before its session ended."
    )
    static = msgspec.structs.replace(died, group_instance_id="static-b")
    assert told(a_report(cause=static))[1] == (
        "  Cause: static-b has not come back: its connection closed 5.8 s before its session ended."
    )


def test_further_joins_leaves_and_missing_members_are_described() -> None:
    lines = told(
        a_report(
            cause=Cause(CauseKind.MEMBER_JOINED, 1_000, C, "worker-c", None, "need more hands."),
            further_causes=(Cause(CauseKind.MEMBER_LEFT, 1_000, B, "worker-b", "static-b"),) * 6,
            waited_for=(Waited(B, "worker-b", 5_200, False), Waited(A, "worker-a", 900, False)),
            removed_member_ids=(B,),
            protocol_name="cooperative-sticky",
            moves=(),
        )
    )
    assert lines == [
        "generation 8, stable after 5.3 s",
        '  Cause: worker-c-33333333 joined ("need more hands").',
        *["  Meanwhile: static-b left."] * 4,
        "  Meanwhile: 2 more of the kind.",
        "  Joining took 5.2 s: it waited for worker-b-22222222 (5.2 s, in vain), "
        "worker-a-11111111 (0.9 s, then it left).",
        "  Assigning took 80 ms: worker-a-11111111 leads 2 members, cooperative-sticky.",
        "  No partition moved.",
    ]


def test_a_rebalance_without_an_assignment_does_not_describe_one() -> None:
    lines = told(a_report(outcome=Outcome.EMPTY, waited_for=(), members=0))
    assert lines[0] == "generation 8, empty after 5.3 s"
    assert lines[-1] == "  Joining took 5.2 s."


def test_the_first_rebalance_of_a_group_moves_nothing() -> None:
    lines = told(a_report(is_initial=True, waited_for=(), moves=(Move("orders", 0, None, A, 5_280),)))
    assert lines[-2:] == ["  1 partition found a reader:", "    orders 0  nobody -> worker-a-11111111  5.3 s"]
    assert "  Joining took 5.2 s: a new group waits for more members." in lines


def test_a_group_that_starts_at_once_waited_for_nobody() -> None:
    report = a_report(is_initial=True, waited_for=(), join_ms=3)
    assert "  Joining took 3 ms." in told(report)


def ongoing(**missing: int) -> OngoingRebalance:
    found = OngoingRebalance(Cause(CauseKind.MEMBER_LEFT, 1_000, A, "worker-a"), 1_000)
    found.missing = dict(missing)
    return found


def test_missing_members_are_named_with_the_time() -> None:
    found = ongoing(**{B: 1_000, C: 3_000})
    found.last_seen_ms = {C: 9_000}
    assert began(found)[0][21:] == "a rebalance began: worker-a-11111111 left."
    assert still_missing(found, 13_000) == [
        "  Under way for 12 s: it still waits for 2 members.",
        "    worker-b-22222222: for 12 s",
        "    worker-c-33333333: for 10 s, last heard of 4.0 s ago",
    ]


def test_only_the_first_of_many_missing_members_are_named() -> None:
    lines = still_missing(ongoing(**{f"m{number}": 1_000 for number in range(12)}), 2_000)
    assert len(lines) == 10
    assert lines[-1] == "    and 4 more"


def test_an_assigning_leader_is_described_when_nobody_is_missing() -> None:
    found = ongoing(**{A: 4_000})
    found.is_assigning = True
    assert still_missing(found, 5_000) == [
        "  Under way for 4.0 s: everyone has joined; worker-a-11111111 assigns since 1.0 s."
    ]
    assert still_missing(ongoing(), 2_000) == [
        "  Under way for 1.0 s: everyone is here; a new group waits a moment for more members."
    ]


def test_every_cause_has_a_text() -> None:
    for kind in CauseKind:
        assert "{" not in "".join(told(a_report(cause=Cause(kind, 1_000, A, "worker-a"))))
