"""Delivery semantics under kill -9 of readers and broker: at most once, at least once, and workers in order.

ROUNDS kills (2 unless told), the moments by SEED; `make kills` does 100 of each.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kills.scene import Outcome, Scene

ROUNDS = int(os.environ.get("ROUNDS", "2"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))

Play = Callable[[str], Outcome]


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Play]:
    """Play a scene with all its kills, say how it went, and return what came of it."""
    scenes: list[Scene] = []

    def run(mode: str) -> Outcome:
        scene = Scene(mode, SEED, tmp_path)
        scenes.append(scene)
        scene.open()
        for _ in range(ROUNDS):
            scene.kill_somebody()
        outcome = scene.settle()
        with capsys.disabled():
            sys.stdout.write(f"\n{outcome} (SEED={SEED})\n")
        assert outcome.times.keys() <= outcome.held
        return outcome

    yield run
    for scene in scenes:
        scene.close()


@pytest.mark.requirement("R26")
def test_commit_before_processing_processes_nothing_twice(play: Play) -> None:
    outcome = play("at-most-once")
    assert outcome.times
    assert not outcome.twice, outcome


@pytest.mark.requirement("R26")
def test_processing_before_commit_loses_nothing(play: Play) -> None:
    outcome = play("at-least-once")
    assert not outcome.lost, outcome


@pytest.mark.requirement("R26")
def test_workers_lose_nothing_and_keep_the_order_of_keys(play: Play) -> None:
    outcome = play("worker-pool")
    assert not outcome.lost, outcome
    for key, offsets in outcome.first_times_by_key.items():
        assert offsets == sorted(offsets), f"{key} of {outcome}"
