"""Causes planted in groups of real members are named, on kohort's broker and on Apache Kafka's.

By day a few kinds, by night all of them: `python -m tests.observe.planting` prints the table.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest

from tests.differential.apache_kafka import MissingTool
from tests.observe.kinds import KINDS
from tests.observe.observer_process import ObserverProcess
from tests.observe.planting import cluster, plant_all, table

NIGHTLY = "KOHORT_TEST_NIGHTLY"
BY_DAY = ("joins", "leaves", "dies", "resets offsets", "two applications", "static bounce")
SEEDS = range(5) if NIGHTLY in os.environ else range(1)
RIGHT_MIN = 0.9
"""Of all that is planted; members are other people's, and may die by themselves."""


@pytest.mark.parametrize("which", ["kohort", "kafka"])
def test_planted_causes_are_named(which: str, tmp_path: Path) -> None:
    kinds = tuple(KINDS) if NIGHTLY in os.environ else BY_DAY
    try:
        with cluster(which, tmp_path) as where:
            observer = ObserverProcess(where.bootstrap, tmp_path)
            observer.start()
            try:
                outcomes = list(plant_all(where, observer, [*product(kinds, SEEDS)]))
            finally:
                observer.kill()
    except MissingTool as missing:
        pytest.skip(str(missing))
    lines = "\n".join(table(outcomes))
    assert sum(each.is_right for each in outcomes) >= RIGHT_MIN * len(outcomes), lines
    assert not any(each.is_surely_wrong for each in outcomes), lines
