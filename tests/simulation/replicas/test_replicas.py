"""A few seeds of a broker that follows; `make sim-replicas SEEDS=200` runs more."""

import pytest

from tests.simulation.replicas.world import World

STEPS = 800


@pytest.mark.parametrize("seed", range(1_000, 1_008))
def test_what_a_follower_keeps_holds_whatever_goes_wrong(seed: int) -> None:
    outcome = World(seed, STEPS).run()
    assert sum(outcome.injected.values()) > 20
    assert outcome.checked["where a leader finds no difference the logs are the same"] > 50


def test_the_same_seed_has_the_same_happen() -> None:
    first, second = World(3, STEPS).run(), World(3, STEPS).run()
    assert (first.injected, first.checked) == (second.injected, second.checked)
