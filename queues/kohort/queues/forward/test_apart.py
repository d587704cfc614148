"""Which routes are set apart, and when they come back."""

import pytest

from kohort.queues.forward.apart import APART_MS_MIN, BACKLOG_MAX, Apart
from kohort.queues.forward.limits import Limits


def limits_of(latency_ms: float | None, concurrency_max: int = 100, rate_max: float = 0) -> Limits:
    limits = Limits(concurrency_max, rate_max, 1, 500, 30_000)
    if latency_ms is not None:
        limits.took(latency_ms)
    return limits


@pytest.mark.parametrize(
    "mine, other, is_behind",
    [
        (limits_of(200), limits_of(2), True),
        (limits_of(19), limits_of(2), False),
        (limits_of(2), limits_of(2), False),
        (limits_of(2), limits_of(200), False),
        (limits_of(None), limits_of(2), False),
        (limits_of(200), limits_of(None), False),  # Nobody is known to be faster.
        (limits_of(0.9), limits_of(0.01), False),  # Both are fast.
    ],
)
def test_a_route_is_set_apart_if_another_one_is_many_times_faster(
    mine: Limits, other: Limits, *, is_behind: bool
) -> None:
    apart = Apart({"mine": mine, "other": other})
    assert apart.is_set_apart("mine", 0) == is_behind
    assert ("mine" in apart) == is_behind
    assert apart.routes == ("mine",) * is_behind
    assert not apart.is_set_apart("mine", 0), "that is no news any more"


def test_a_service_that_has_never_answered_is_as_slow_as_its_push_is_old() -> None:
    apart = Apart({"mine": limits_of(None), "other": limits_of(2)})
    assert not apart.is_set_apart("mine", 0, 19)
    assert apart.is_set_apart("mine", 0, 20)


def test_a_route_of_one_push_at_a_time_is_slow_beside_one_of_many() -> None:
    mine = limits_of(2, concurrency_max=1)
    apart = Apart({"mine": mine, "other": limits_of(2)})
    assert not apart.is_set_apart("mine", 0), "it keeps up"
    mine.begin()
    assert apart.is_set_apart("mine", 0)


def test_a_route_whose_service_is_away_or_is_given_no_more_is_set_apart() -> None:
    away, limited = limits_of(2), limits_of(2, rate_max=1)
    away.breaker.failed(0)
    limited.begin()
    apart = Apart({"away": away, "limited": limited, "other": limits_of(2)})
    assert [apart.is_set_apart(each, 0) for each in ("away", "limited", "other")] == [True, True, False]


def test_where_all_services_are_away_nothing_is_set_apart() -> None:
    both = {name: limits_of(2) for name in ("mine", "other")}
    for each in both.values():
        each.breaker.failed(0)
    assert not Apart(both).is_set_apart("mine", 0)


def test_a_route_comes_back_when_it_is_fast_again_and_has_little_left() -> None:
    mine = limits_of(200)
    apart = Apart({"mine": mine, "other": limits_of(2)})
    assert apart.is_set_apart("mine", 0)
    assert not apart.come_back("mine", 0, APART_MS_MIN), "its service is as slow as before"
    for _ in range(100):
        mine.took(2)
    assert not apart.come_back("mine", 0, APART_MS_MIN - 1)
    assert not apart.come_back("mine", BACKLOG_MAX + 1, APART_MS_MIN)
    assert apart.come_back("mine", BACKLOG_MAX, APART_MS_MIN)
    assert "mine" not in apart
