"""A seed is one run in any process: the same messages, disk operations and changes of etcd."""

import pytest

from kohort.testing.simulation.running import run_seed
from tests.hash_seeds import under_hash_seeds
from tests.repetitions import repetitions
from tests.simulation.whole.scenario import Shape, one_broker, three_brokers

SCENARIOS = {"one": one_broker, "three": three_brokers}
SECONDS = {"one": 15.0, "three": 20.0}
SEEDS = {"one": (5,), "three": (8, 2)}


def fingerprint(scenario: str, seed: int) -> str:
    """Return a hash of all that happens in a run."""
    _, test = SCENARIOS[scenario](Shape(SECONDS[scenario]))
    world, error = run_seed(test, seed)
    assert error is None, world.story_told
    return world.fingerprint


@pytest.mark.parametrize("scenario", list(SCENARIOS)[: repetitions(1, by_night=2)])
def test_a_seed_is_one_run_in_each_process_and_under_each_hash_seed(scenario: str) -> None:
    for seed in SEEDS[scenario]:
        here = fingerprint(scenario, seed)  # This process has run other things before.
        code = f"from {__name__} import fingerprint; print(fingerprint({scenario!r}, {seed}))"
        assert under_hash_seeds(code) == {here}


def test_another_seed_is_another_run() -> None:
    assert fingerprint("one", 6) != fingerprint("one", 7)
