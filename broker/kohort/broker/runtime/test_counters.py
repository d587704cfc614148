"""Counts that are more than an addition."""

from kohort.broker.runtime.counters import BrokerCounters, Distribution


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    times = Distribution((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        times.add(seconds)
    assert times.cumulative() == [("0.1", 2.0), ("1.0", 3.0), ("+Inf", 4.0)]
    assert times.count == 4
    assert abs(times.sum_seconds - 7.65) < 1e-9


def test_rebalances_are_counted_by_cause() -> None:
    counters = BrokerCounters()
    for cause in ("MEMBER_JOINED", "MEMBER_LEFT", "MEMBER_JOINED"):
        counters.rebalance_started(cause)
    counters.rebalance_completed(0.2)
    assert counters.rebalances == {"MEMBER_JOINED": 2, "MEMBER_LEFT": 1}
    assert counters.rebalance_pauses.count == 1


def test_errors_are_counted_by_code() -> None:
    counters = BrokerCounters()
    counters.request_failed(27)
    counters.request_failed(27)
    assert counters.request_errors == {27: 2}
