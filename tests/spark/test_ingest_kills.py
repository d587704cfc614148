"""A driver that is killed at every moment, and a broker that is: nothing lost, nothing twice, no lag at last.

Each kill is SIGKILL for Python and Spark's JVM at once. Starting a driver takes seconds, so `make test` kills
at one moment; KOHORT_TEST_LARGE=1 (`make spark`) at all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.interop.broker_process import BrokerProcess
from tests.spark.ingest_driver import (
    AFTER_GROUP,
    AFTER_MANIFEST,
    AFTER_WRITE,
    BEFORE_GROUP,
    BEFORE_WRITE,
    GO_ON,
    IN_WRITE,
    REACHED,
)
from tests.spark.ingest_world import PATIENCE_S, World, only_large, until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    broker = BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0")
    try:
        broker.start()
        world = World(broker, tmp_path)
        world.make_topic()
        world.produce(1_000)
        yield world
    finally:
        broker.stop()


def finish(world: World, spark: SparkSession) -> None:
    """Ingest what is left, here, and look at what has come of all."""
    world.assert_group_is_nowhere_ahead()
    world.ingest(world.stream(spark))
    world.assert_nothing_is_lost_or_doubled(spark)
    world.assert_group_is_at_the_end()


def test_a_driver_that_is_killed_before_it_tells_the_group(world: World, spark: SparkSession) -> None:
    world.kill_at(BEFORE_GROUP)
    finish(world, spark)


@only_large
def test_a_driver_that_is_killed_as_it_writes_and_again_before_it_tells_the_group(
    world: World, spark: SparkSession
) -> None:
    world.kill_at(IN_WRITE, "--deadly-offset", "150")
    world.assert_group_is_nowhere_ahead()
    world.kill_at(BEFORE_GROUP)
    finish(world, spark)


@only_large
@pytest.mark.parametrize("moment", [BEFORE_WRITE, IN_WRITE, AFTER_WRITE, AFTER_MANIFEST, AFTER_GROUP])
def test_a_driver_that_is_killed_at_this_moment(world: World, spark: SparkSession, moment: str) -> None:
    world.kill_at(moment, "--deadly-offset", "150")
    finish(world, spark)


@only_large
def test_a_driver_that_is_killed_again_and_again(world: World, spark: SparkSession) -> None:
    for moment in (AFTER_MANIFEST, AFTER_WRITE, BEFORE_GROUP):
        world.kill_at(moment)
        world.assert_group_is_nowhere_ahead()
    finish(world, spark)


@only_large
@pytest.mark.parametrize("moment", [BEFORE_WRITE, IN_WRITE, AFTER_WRITE, AFTER_MANIFEST, BEFORE_GROUP])
def test_a_broker_that_is_killed_and_comes_back_at_this_moment(
    world: World, spark: SparkSession, moment: str
) -> None:
    driver = world.drive("--at", moment, "--wait", "--deadly-offset", "150")
    until(lambda: (world.folder / REACHED).exists() or driver.poll() is not None)
    world.broker.kill()
    (world.folder / GO_ON).touch()
    world.broker.start()
    out, _ = driver.communicate(timeout=PATIENCE_S)
    if driver.returncode == 0:  # It rode over the gap; else it ended, and the next one goes on.
        assert json.loads(out)["error"] is None
        world.assert_nothing_is_lost_or_doubled(spark)
        world.assert_group_is_at_the_end()
    finish(world, spark)


@only_large
def test_a_coordinator_that_is_away_as_spark_commits_hears_of_it_later(
    world: World, spark: SparkSession
) -> None:
    driver = world.drive("--at", AFTER_MANIFEST, "--wait")
    until(lambda: (world.folder / REACHED).exists() or driver.poll() is not None)
    world.broker.kill()
    (world.folder / GO_ON).touch()
    until((world.folder / "checkpoint" / "commits" / "1").exists)
    world.broker.start()
    driver.communicate(timeout=PATIENCE_S)
    finish(world, spark)
