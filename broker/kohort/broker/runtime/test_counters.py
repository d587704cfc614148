"""Counts that are more than an addition."""

from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.explain.events import Move, RebalanceReport
from kohort.broker.group.events import Cause, CauseKind
from kohort.broker.group.rebalance_facts import Outcome
from kohort.broker.runtime.counters import Distribution
from kohort.broker.transport.counters import TransportCounters


def a_report(outcome: Outcome) -> RebalanceReport:
    return RebalanceReport(
        outcome=outcome,
        generation_id=2,
        cause=Cause(CauseKind.MEMBER_JOINED, 1_000),
        further_causes=(),
        started_ms=1_000,
        join_ms=150,
        sync_ms=50,
        still_ms=200,
        members=2,
        leader="a",
        protocol_name="range",
        waited_for=(),
        removed_member_ids=(),
        moves=(Move("t", 0, "a", "b", 500), Move("t", 1, None, "b", 1_500)),
    )


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    times = Distribution((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        times.add(seconds)
    assert times.cumulative() == [("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)]
    assert times.count == 4
    assert abs(times.sum_seconds - 7.65) < 1e-9


def test_rebalances_are_counted_by_cause() -> None:
    counters = GroupCounters()
    for cause in ("MEMBER_JOINED", "MEMBER_LEFT", "MEMBER_JOINED"):
        counters.rebalance_started(cause)
    counters.rebalance_completed(a_report(Outcome.STABLE))
    counters.rebalance_completed(a_report(Outcome.RESTARTED))
    assert counters.rebalances == {"MEMBER_JOINED": 2, "MEMBER_LEFT": 1}
    assert counters.rebalance_pauses.count == 2
    assert counters.rebalances_completed == counters.rebalance_syncs.count == 1
    assert counters.partitions_moved == 4
    assert counters.still_seconds == 4.0


def test_errors_are_counted_by_code() -> None:
    counters = TransportCounters()
    counters.request_failed(27)
    counters.request_failed(27)
    assert counters.request_errors == {27: 2}
