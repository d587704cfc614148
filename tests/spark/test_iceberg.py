"""Topics into Iceberg tables: each record once, whoever is killed or late, for every reader of Iceberg."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from kohort.pipeline.ingest import TableTakenError
from kohort.pipeline.ingest.formats import ICEBERG
from kohort.pipeline.ingest.iceberg_log import IcebergLogError
from kohort.pipeline.ingest.iceberg_table import TIMES, IcebergTable, columns_of
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import Tools
from tests.spark.ingest_driver import AFTER_MANIFEST, AFTER_WRITE, CATALOG, IN_WRITE, ROWS
from tests.spark.ingest_world import World, own_world
from tests.spark.test_delta import AIR, at_once, batch_of, rows

RECORDS = 500
NAME = f"{CATALOG}.tests.air"


@pytest.fixture
def world(broker: BrokerProcess, tools: Tools | None, tmp_path: Path, iceberg: SparkSession) -> World:
    """A topic of this test's own, with records in it."""
    found = own_world(broker, tmp_path, tools, ICEBERG)
    found.produce(RECORDS)
    return found


def air() -> Table:
    """Return the table of what Spark alone writes, as any reader has it."""
    return load_catalog(CATALOG).load_table("tests.air")


def offsets() -> list[int]:
    found = air().scan().to_arrow()
    return sorted(found["offset"].to_pylist())


def test_every_record_is_there_once_and_other_readers_agree(world: World, iceberg: SparkSession) -> None:
    times = iceberg.conf.get(TIMES)
    first = world.ingest(world.stream(iceberg))
    assert (first.rows, first.rows_in_table, first.group.error) == (RECORDS, RECORDS, None)
    assert first.batches_in_table == first.batch_id + 1 == 3
    world.produce(100)
    again = world.ingest(world.stream(iceberg))
    assert (again.rows, again.rows_in_table) == (100, 600)
    world.assert_nothing_is_lost_or_doubled(iceberg)
    world.assert_group_is_at_the_end()
    table = world.iceberg()
    assert len(table.snapshots()) == again.batches_in_table
    assert str(table.schema().find_type("timestamp")) == "timestamptz"
    files = table.inspect.files()["file_path"].to_pylist()
    counted = duckdb.sql("select count(*), count(distinct value) from read_parquet(?)", params=[files])
    assert counted.fetchall() == [(600, 600)]
    assert iceberg.conf.get(TIMES) == times


@pytest.mark.parametrize("moment", [IN_WRITE, AFTER_WRITE, AFTER_MANIFEST])
def test_a_driver_killed_at_this_moment(world: World, iceberg: SparkSession, moment: str) -> None:
    world.kill_at(moment)
    world.assert_it_is(moment)
    world.finish(iceberg)


def test_a_compaction_between_two_runs_changes_nothing(world: World, iceberg: SparkSession) -> None:
    world.ingest(world.stream(iceberg))
    table = world.iceberg()
    table.overwrite(table.scan().to_arrow())
    table.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.snapshots()[:-1]]
    ).commit()
    world.produce(100)
    world.finish(iceberg)


def test_a_restored_older_checkpoint_is_refused(world: World, iceberg: SparkSession) -> None:
    world.restore_older_checkpoint(iceberg)
    with pytest.raises(StreamingQueryException, match="older one that was put back"):
        world.ingest(world.stream(iceberg, rows=2 * ROWS))
    assert len(world.values(iceberg)) == RECORDS + ROWS


def test_a_driver_that_is_behind_never_changes_the_table(iceberg: SparkSession) -> None:
    stale, other = IcebergTable(iceberg, NAME), IcebergTable(iceberg, NAME)
    assert stale.put(rows(iceberg, 0, 10), batch_of(0)) == 10
    for number in range(1, 3):
        other.begin()
        assert other.put(rows(iceberg, 10 * number, 10), batch_of(number)) == 10
    with pytest.raises(TableTakenError, match="put a batch into"):
        stale.put(rows(iceberg, 10, 10), batch_of(1))
    stale.begin()
    with pytest.raises(TableTakenError, match="has the query's batch 2 already"):
        stale.has(batch_of(1))
    assert offsets() == list(range(30))


def test_one_of_two_concurrent_drivers_is_refused(iceberg: SparkSession) -> None:
    drivers = [IcebergTable(iceberg, NAME), IcebergTable(iceberg, NAME)]
    drivers[0].put(rows(iceberg, 0, 10), batch_of(0))
    for number in range(1, 3):
        for each in drivers:
            each.begin()
        results = at_once(drivers, rows(iceberg, 10 * number, 10), batch_of(number))
        assert sorted(results, key=str) == [10, TableTakenError]
    assert offsets() == list(range(30))


def test_a_table_is_partitioned_by_columns(iceberg: SparkSession) -> None:
    columns = ["topic", "partition"]
    table = IcebergTable(iceberg, NAME, columns)
    both = rows(iceberg, 0, 10).withColumn("partition", F.col("offset").cast("int") % 2)
    assert table.put(both, batch_of(0)) == 10
    again = IcebergTable(iceberg, NAME)  # The table says by what.
    assert again.put(rows(iceberg, 10, 5).withColumn("topic", F.lit(None).cast("string")), batch_of(1)) == 5
    assert again.rows == 15
    files = air().inspect.files()
    found = sorted(map(str, air().inspect.partitions()["partition"]))
    assert len(files) == len(found) == 3
    assert offsets() == list(range(15))
    with pytest.raises(IcebergLogError, match="is partitioned by topic, partition, not by topic"):
        IcebergTable(iceberg, NAME, ["topic"])


def test_a_table_of_others_is_continued_where_its_rows_end(iceberg: SparkSession) -> None:
    table = IcebergTable(iceberg, NAME)
    table.put(rows(iceberg, 0, 10), batch_of(0))
    with air().transaction() as transaction:
        transaction.remove_properties("kohort.ingest")
    table.begin()
    assert table.owner() is None
    assert table.positions_before(batch_of(1)) == {AIR: 10}


def test_columns_of_a_table_may_be_null_at_every_depth() -> None:
    inner = StructType([StructField("nullable", IntegerType(), False)])
    schema = StructType([StructField("a", ArrayType(inner, False), False), StructField("b", StringType())])
    found = columns_of(schema)
    assert [each.nullable for each in found] == [True, True]
    assert found.field("a").type.value_field.nullable
    assert found.field("a").type.value_type.field("nullable").nullable
