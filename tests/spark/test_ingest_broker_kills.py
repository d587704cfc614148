"""A broker that is killed at every moment of an ingest: nothing lost, nothing twice, no lag at last.

On a table with a manifest, on one of Delta Lake and on one of Iceberg. Each kill is SIGKILL. The driver is
this process: it waits at the moment until the broker is gone, and goes on while it is away. `make test-spark`
kills at one moment, KOHORT_TEST_LARGE=1 (`make spark`) at all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import SparkSession

from kohort.pipeline.ingest import group_offsets, ingest
from kohort.pipeline.ingest.formats import DELTA
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import Tools
from tests.spark.ingest_driver import (
    AFTER_MANIFEST,
    AFTER_WRITE,
    BEFORE_WRITE,
    IN_WRITE,
    MOMENTS,
    ROWS,
    until,
)
from tests.spark.ingest_world import EACH_FORMAT, World, format_of, only_large

RECORDS = 1_000
LAST_BATCH = RECORDS // ROWS - 1


@pytest.fixture(params=EACH_FORMAT)
def world(request: pytest.FixtureRequest, tools: Tools | None, tmp_path: Path) -> Iterator[World]:
    broker = BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0")
    try:
        broker.start()
        world = World(broker, tmp_path, tools=tools, format=format_of(request))
        world.make_topic()
        world.produce(RECORDS)
        yield world
    finally:
        broker.stop()


def assert_all_is_well(world: World, spark: SparkSession) -> None:
    world.assert_nothing_is_lost_or_doubled(spark)
    world.assert_group_is_at_the_end()


@only_large
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_broker_killed_and_restarted_at_this_moment(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    if moment == AFTER_WRITE and world.format == DELTA:
        pytest.skip("Delta writes the files and the version that has them in one call")
    with world.start_until(moment, spark, monkeypatch) as job:
        world.assert_it_is(moment)
        world.broker.kill()
        world.go_on()
        world.broker.start()
        job.wait()
        summary = job.stop()
    assert (summary.rows, summary.group.error) == (RECORDS, None)
    assert_all_is_well(world, spark)
    world.produce(10)
    assert world.ingest(world.stream(spark)).rows == 10
    assert_all_is_well(world, spark)


@only_large
@pytest.mark.parametrize("moment", [BEFORE_WRITE, IN_WRITE])
def test_a_broker_that_stays_away_ends_the_query_and_the_next_run_continues(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(group_offsets, "ATTEMPT_MS", 500)
    job = world.start_until(moment, spark, monkeypatch, timeout_ms=1_500)
    world.broker.kill()
    world.go_on()
    with pytest.raises(StreamingQueryException):
        job.wait()
    assert job.stop(group_within_s=0).group.error is not None
    world.broker.start()
    world.assert_group_is_nowhere_ahead()
    assert world.ingest(world.stream(spark)).rows > 0
    assert_all_is_well(world, spark)


@only_large
def test_a_coordinator_killed_during_sparks_commit_is_committed_later(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.start_until(AFTER_MANIFEST, spark, monkeypatch) as job:
        world.broker.kill()
        world.go_on()
        until(lambda: 1 in world.state().committed_by_spark)
        until(lambda: not job.group.is_true)
        world.broker.start()
        job.wait()
        assert job.stop().group.is_true
    assert_all_is_well(world, spark)


@only_large
def test_a_coordinator_missing_at_the_start_is_committed_later(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ingest(world.stream(spark))
    world.produce(100)
    monkeypatch.setattr(group_offsets, "ATTEMPT_MS", 500)
    world.broker.kill()
    where = (world.table, world.checkpoint, world.group, world.broker.bootstrap)
    with ingest(world.stream(spark), *where, format=world.format) as job:
        assert not job.group.is_true
        world.broker.start()
        job.wait()
        summary = job.stop()
    assert (summary.rows, summary.group.error) == (100, None)
    assert_all_is_well(world, spark)


def test_a_coordinator_killed_at_the_end_is_committed_by_the_next_run(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_offsets, "ATTEMPT_MS", 500)
    with world.start_until(AFTER_MANIFEST, spark, monkeypatch, batch=LAST_BATCH) as job:
        world.broker.kill()
        world.go_on()
        job.wait()
        summary = job.stop(group_within_s=0)
    assert summary.rows == RECORDS
    assert summary.group.error is not None
    world.broker.start()
    world.assert_group_is_nowhere_ahead()
    assert world.committed() != world.ends()
    assert world.ingest(world.stream(spark)).rows == 0
    assert_all_is_well(world, spark)
