"""Whole brokers under a few seeds; and what is broken on purpose is found."""

import pytest

from kohort.storage.memory_filesystem import MemoryFile
from tests.simulation.whole.scenario import play

SEEDS_MAX = 10


@pytest.mark.parametrize("seed", range(3))
def test_one_broker(seed: int) -> None:
    world, books, reached, error = play("one", seed)
    assert error is None, world.story_told
    assert all(books.shown.values())
    assert reached["a segment is begun"]
    assert books.sharing.accepted
    assert books.trimming.written
    assert world.faults


def test_three_brokers() -> None:
    pytest.importorskip("httpx")
    world, books, reached, error = play("three", 1)
    assert error is None, world.story_told
    assert all(books.shown.values())
    assert reached["the journal begins again"]


def test_a_disk_that_syncs_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryFile, "sync", lambda _file: None)
    errors = (play("one", seed).error for seed in range(SEEDS_MAX))
    found = next((each for each in errors if each is not None), None)
    assert isinstance(found, AssertionError), f"{SEEDS_MAX} seeds have found nothing"
