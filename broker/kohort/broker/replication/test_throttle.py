"""Rates at which replicas are copied."""

import pytest

from kohort.broker.replication.throttle import UNLIMITED, Throttle, is_named


def test_moved_bytes_are_paid_off_over_time() -> None:
    throttle = Throttle()
    assert not throttle.is_exceeded(1_000, 5_000)
    throttle.moved(1_000, 1_000, 5_000)
    assert not throttle.is_exceeded(1_000, 5_000)
    throttle.moved(3_000, 1_000, 5_000)
    assert throttle.is_exceeded(1_000, 7_999)
    assert not throttle.is_exceeded(1_000, 8_000)


def test_unused_rate_is_not_saved() -> None:
    throttle = Throttle()
    throttle.moved(1_000, 1_000, 0)
    assert not throttle.is_exceeded(1_000, 60_000)
    throttle.moved(2_000, 1_000, 60_000)
    assert throttle.is_exceeded(1_000, 60_999)


def test_checking_twice_a_second_copies_at_the_rate() -> None:
    throttle, moved = Throttle(), 0
    for now_ms in range(0, 20_000, 500):
        while not throttle.is_exceeded(10_000_000, now_ms):
            throttle.moved(1_000_000, 10_000_000, now_ms)
            moved += 1_000_000
    assert 195_000_000 <= moved <= 210_000_000


def test_a_raised_rate_applies_at_once() -> None:
    throttle = Throttle()
    throttle.moved(1_000_000, 1, 0)
    assert throttle.is_exceeded(1, 1_000)
    assert not throttle.is_exceeded(1_000_000, 2_000)


def test_without_a_rate_nothing_is_throttled() -> None:
    throttle = Throttle()
    throttle.moved(10**12, UNLIMITED, 0)
    assert not throttle.is_exceeded(UNLIMITED, 0)
    throttle.moved(10**12, 1, 0)
    assert not throttle.is_exceeded(UNLIMITED, 0)


@pytest.mark.parametrize(
    ("throttled", "expected"), [((), False), (("*",), True), (("0:1", "3:2"), True), (("3:1", "2:3"), False)]
)
def test_a_topic_names_its_replicas(throttled: tuple[str, ...], expected: bool) -> None:
    assert is_named(throttled, 3, 2) is expected
