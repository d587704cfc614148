"""Whole brokers under a few seeds; and what is broken on purpose is found."""

import pytest

from kohort.storage.memory_filesystem import MemoryFile
from kohort.testing.simulation.running import run_seed
from tests.simulation.whole.scenario import one_broker, three_brokers

SEEDS_MAX = 10


@pytest.mark.parametrize("seed", range(3))
def test_one_broker(seed: int) -> None:
    books, test = one_broker()
    world, error = run_seed(test, seed)
    assert error is None, world.story_told
    assert all(books.shown.values())
    assert books.sharing.accepted
    assert books.trimming.deleted
    assert world.faults


def test_three_brokers() -> None:
    pytest.importorskip("httpx")
    books, test = three_brokers()
    world, error = run_seed(test, 1)
    assert error is None, world.story_told
    assert all(books.shown.values())


def test_a_disk_that_syncs_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryFile, "sync", lambda _file: None)
    errors = (run_seed(one_broker()[1], seed)[1] for seed in range(SEEDS_MAX))
    found = next((each for each in errors if each is not None), None)
    assert isinstance(found, AssertionError), f"{SEEDS_MAX} seeds have found nothing"
