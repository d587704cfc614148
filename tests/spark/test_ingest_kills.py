"""A driver that is killed at every moment: nothing lost, nothing twice in the table, no lag at last.

Each kill is SIGKILL for Python and Spark's JVM at once, and what lies on the disk shows that it came at its
moment. Starting a driver takes seconds, so `make test-spark` kills at one moment; KOHORT_TEST_LARGE=1
(`make spark`) at all of them, and does to what is left what may befall it. `test_ingest_broker_kills` does
the same to the broker.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import SparkSession

from kohort.client import TopicPartition
from kohort.pipeline.ingest import CheckpointLostError
from kohort.pipeline.ingest.formats import DELTA
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import Tools
from tests.spark.ingest_driver import (
    AFTER_GROUP,
    AFTER_MANIFEST,
    AFTER_WRITE,
    BEFORE_GROUP,
    BEFORE_WRITE,
    IN_WRITE,
    ROWS,
)
from tests.spark.ingest_world import EACH_FORMAT, PARTITIONS, World, format_of, only_large, own_world

RECORDS = 1_000


@pytest.fixture(params=EACH_FORMAT)
def world(
    request: pytest.FixtureRequest, broker: BrokerProcess, tools: Tools | None, tmp_path: Path
) -> World:
    """A topic of this test's own, with records in it."""
    world = own_world(broker, tmp_path, tools, format_of(request))
    world.produce(RECORDS)
    return world


def test_a_driver_killed_before_it_commits_the_group(world: World, spark: SparkSession) -> None:
    world.kill_at(BEFORE_GROUP)
    world.assert_it_is(BEFORE_GROUP)
    world.finish(spark)
    assert world.lag_by_kafkas_tool() == [0] * PARTITIONS


@only_large
@pytest.mark.parametrize("moment", [BEFORE_WRITE, IN_WRITE, AFTER_WRITE, AFTER_MANIFEST, AFTER_GROUP])
def test_a_driver_that_is_killed_at_this_moment(world: World, spark: SparkSession, moment: str) -> None:
    if moment == AFTER_WRITE and world.format == DELTA:
        pytest.skip("Delta writes the files and the version that has them in one call")
    world.kill_at(moment)
    world.assert_it_is(moment)
    world.finish(spark)


@only_large
def test_a_driver_that_is_killed_again_and_again(world: World, spark: SparkSession) -> None:
    world.produce(2 * ROWS)  # Each run but the last comes two batches far.
    for moment in (IN_WRITE, AFTER_MANIFEST, AFTER_WRITE, BEFORE_GROUP):
        world.kill_at(moment)
        world.assert_group_is_nowhere_ahead()
    world.finish(spark)


@only_large
@pytest.mark.parametrize(("moment", "lost"), [(BEFORE_WRITE, range(200, 360, 2)), (AFTER_MANIFEST, range(0))])
def test_offsets_that_fall_below_the_log_start_after_a_kill_are_an_error_unless_opted_out(
    world: World, spark: SparkSession, moment: str, lost: range
) -> None:
    """Of a batch that is in the table nothing is lost; Spark plans it once more nevertheless."""
    world.kill_at(moment)  # Spark has written down that the batch has the offsets from 100 to 199.
    with world.admin() as admin:
        admin.delete_records({TopicPartition(world.topic, 0): 180})  # Partition 0 has the even numbers.
    before = world.state()
    with pytest.raises(StreamingQueryException, match="offsets from 100 on were deleted"):
        world.ingest(world.stream(spark))
    assert world.state() == before
    world.assert_group_is_nowhere_ahead()
    world.ingest(world.stream(spark, fail_on_data_loss="false"), fail_on_data_loss=False)
    assert world.values(spark) == sorted(set(range(RECORDS)) - set(lost))
    world.assert_group_is_at_the_end()


@only_large
@pytest.mark.parametrize("moment", [IN_WRITE, AFTER_MANIFEST])
def test_a_checkpoint_that_is_lost_after_a_kill(world: World, spark: SparkSession, moment: str) -> None:
    world.kill_at(moment)
    shutil.rmtree(world.checkpoint)
    before = world.committed()
    with pytest.raises(CheckpointLostError, match="--resume"):
        world.ingest(world.stream(spark))
    assert world.committed() == before
    if moment == AFTER_MANIFEST:  # Once more, while the new checkpoint reads again what the table has.
        world.kill_at(BEFORE_WRITE, "--resume")
        assert world.committed() == before
    summary = world.ingest(world.stream(spark), resume=True)
    assert summary.rows_in_table == RECORDS
    world.assert_nothing_is_lost_or_doubled(spark)
    world.assert_group_is_at_the_end()
    world.produce(10)
    world.finish(spark)
