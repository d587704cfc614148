"""Small limits of a run: they are there within it alone, and what no run reaches is told."""

from collections import Counter

import pytest

from tests.simulation.whole.limits import CONSTANTS, SETTINGS, Limits
from tests.simulation.whole.reached import NOT_OF_ONE, RARE, STEPS, counted, missed

SEEDS = range(30)


def constants() -> list[object]:
    return [getattr(each.module, each.name) for each in CONSTANTS]


def test_small_constants_end_with_the_run_however_it_ends() -> None:
    shipped = constants()
    for seed in SEEDS:
        with pytest.raises(RuntimeError, match="the run"):
            _fail_within(Limits(seed), shipped)
        assert constants() == shipped


def _fail_within(limits: Limits, shipped: list[object]) -> None:
    with limits.in_place():
        assert constants() != shipped
        raise RuntimeError("the run")


def test_each_limit_is_small_in_some_seeds_and_as_shipped_in_others() -> None:
    shipped = constants()
    is_small = Counter[int]()
    for seed in SEEDS:
        with Limits(seed).in_place():
            is_small.update(place for place, each in enumerate(constants()) if each is not shipped[place])
    assert set(is_small) == set(range(len(CONSTANTS)))
    assert max(is_small.values()) < len(SEEDS)
    drawn = Counter(name for seed in SEEDS for name in Limits(seed).settings)
    assert set(drawn) == set(SETTINGS)
    assert max(drawn.values()) < len(SEEDS)


def test_a_seed_has_the_same_limits_each_time() -> None:
    first, again = Limits(7), Limits(7)
    assert first.told == again.told != Limits(8).told
    assert first.topic_settings("a") == again.topic_settings("a")


def test_steps_are_counted_in_the_run_alone() -> None:
    functions = [getattr(each.owner, each.name) for each in STEPS]
    with counted() as reached:
        assert [getattr(each.owner, each.name) for each in STEPS] != functions
    assert [getattr(each.owner, each.name) for each in STEPS] == functions
    assert not reached


def test_what_no_run_has_reached_is_told() -> None:
    words = [each.words for each in STEPS if each.words not in RARE]
    assert missed("three", Counter()) == words
    assert missed("one", Counter(words)) == []
    assert set(missed("three", Counter())) - set(missed("one", Counter())) == NOT_OF_ONE
