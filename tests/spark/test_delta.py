"""Topics into Delta Lake tables: each record once, whoever is killed or late, for every reader of Delta."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake import DeltaTable as OtherReader
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kohort.client import TopicPartition
from kohort.pipeline.ingest import TableFormatError, TableTakenError
from kohort.pipeline.ingest.batch_table import Batch, BatchTable
from kohort.pipeline.ingest.delta_log import APPLICATION
from kohort.pipeline.ingest.delta_table import DeltaTable
from kohort.pipeline.ingest.formats import DELTA, PARQUET
from kohort.pipeline.ingest.word import word_on
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import Tools
from tests.spark.ingest_driver import ROWS
from tests.spark.ingest_world import World, only_large, own_world

RECORDS = 500
AIR = TopicPartition("air", 0)
QUERY = "query"


@pytest.fixture
def world(broker: BrokerProcess, tools: Tools | None, tmp_path: Path, delta: SparkSession) -> World:
    """A topic of this test's own, with records in it."""
    found = own_world(broker, tmp_path, tools, DELTA)
    found.produce(RECORDS)
    return found


def rows(spark: SparkSession, first: int, count: int) -> DataFrame:
    """Return so many records of the one partition, from an offset on."""
    frame = spark.range(first, first + count, numPartitions=1)
    return frame.select(F.lit("air").alias("topic"), F.lit(0).alias("partition"), F.col("id").alias("offset"))


def batch_of(number: int, query: str = QUERY) -> Batch:
    return Batch(query, number, {AIR: 10 * (number + 1)})


def put_by_another(path: str, first: int, batches: int) -> None:
    """Put batches into the table as a driver does, by another implementation of Delta, which is quick."""
    for number in range(first, first + batches):
        version = OtherReader(path).version() + 1
        offsets = pa.array(range(10 * number, 10 * number + 10), pa.int64())
        columns = {
            "topic": pa.array(["air"] * 10),
            "partition": pa.array([0] * 10, pa.int32()),
            "offset": offsets,
        }
        said = {"userMetadata": word_on(batch_of(number), {}, number + 1, f"token-{number}")}
        properties = CommitProperties(
            custom_metadata=said, app_transactions=[Transaction(APPLICATION, version)], max_commit_retries=0
        )
        write_deltalake(path, pa.table(columns), mode="append", commit_properties=properties)


def test_every_record_is_there_once_and_other_readers_agree(world: World, delta: SparkSession) -> None:
    first = world.ingest(world.stream(delta))
    assert (first.rows, first.rows_in_table, first.group.error) == (RECORDS, RECORDS, None)
    assert first.batches_in_table == first.batch_id + 1 == 3
    world.produce(100)
    again = world.ingest(world.stream(delta))
    assert (again.rows, again.rows_in_table) == (100, 600)
    world.assert_nothing_is_lost_or_doubled(delta)
    world.assert_group_is_at_the_end()
    other = OtherReader(world.table)
    by_pandas = other.to_pandas()
    assert sorted(int(each) for each in by_pandas["value"]) == list(range(600))
    files = other.file_uris()
    counted = duckdb.sql("select count(*), count(distinct value) from read_parquet(?)", params=[files])
    assert counted.fetchall() == [(600, 600)]
    assert other.transaction_version(APPLICATION) == other.version()


@only_large
def test_compaction_and_vacuum_between_two_runs_change_nothing(world: World, delta: SparkSession) -> None:
    world.ingest(world.stream(delta))
    before = len(OtherReader(world.table).file_uris())
    delta.sql(f"OPTIMIZE delta.`{world.table}`").collect()
    delta.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        delta.sql(f"VACUUM delta.`{world.table}` RETAIN 0 HOURS").collect()
    finally:
        delta.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert len(OtherReader(world.table).file_uris()) < before
    assert len(list(Path(world.table).glob("*.parquet"))) < before
    world.produce(100)
    world.finish(delta)


def test_a_restored_older_checkpoint_is_refused(world: World, delta: SparkSession) -> None:
    world.restore_older_checkpoint(delta)
    with pytest.raises(StreamingQueryException, match="older one that was put back"):
        world.ingest(world.stream(delta, rows=2 * ROWS))
    assert OtherReader(world.table).to_pyarrow_dataset().count_rows() == RECORDS + ROWS


def test_a_driver_two_hundred_batches_behind_never_changes_the_table(
    delta: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    stale = DeltaTable(delta, path)
    stale.begin()
    assert stale.put(rows(delta, 0, 10), batch_of(0)) == 10
    put_by_another(path, 1, 200)
    before = OtherReader(path).version()
    with pytest.raises(TableTakenError, match="put a batch into"):
        stale.put(rows(delta, 10, 10), batch_of(1))  # It was about to write when it was thought dead.
    stale.begin()
    with pytest.raises(TableTakenError, match="has the query's batch 200 already"):
        stale.has(batch_of(1))
    after = OtherReader(path)
    assert after.version() == before
    assert sorted(after.to_pandas()["offset"]) == list(range(2010))


def test_one_of_two_concurrent_drivers_is_refused(delta: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    drivers = [DeltaTable(delta, path), DeltaTable(delta, path)]
    drivers[0].put(rows(delta, 0, 10), batch_of(0))
    for number in range(1, 4):
        for each in drivers:
            each.begin()
        results = at_once(drivers, rows(delta, 10 * number, 10), batch_of(number))
        assert sorted(results, key=str) == [10, TableTakenError]
    assert sorted(OtherReader(path).to_pandas()["offset"]) == list(range(40))


def test_compaction_between_two_checks_lets_neither_driver_overtake(
    delta: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    late, early = DeltaTable(delta, path), DeltaTable(delta, path)
    for number in range(2):
        early.begin()
        early.put(rows(delta, 10 * number, 10), batch_of(number))
    late.begin()
    OtherReader(path).optimize.compact()
    early.begin()
    assert late.put(rows(delta, 20, 10), batch_of(2)) == 10
    with pytest.raises(TableTakenError, match="put a batch into"):
        early.put(rows(delta, 20, 10), batch_of(2))
    assert sorted(OtherReader(path).to_pandas()["offset"]) == list(range(30))


def at_once(drivers: Sequence[BatchTable], frame: DataFrame, batch: Batch) -> list[object]:
    """Have all drivers put the same batch in at the same time; return rows or errors."""
    start, results = threading.Barrier(len(drivers)), list[object]()

    def put(driver: BatchTable) -> None:
        start.wait()
        try:
            results.append(driver.put(frame, batch))
        except TableTakenError:
            results.append(TableTakenError)

    threads = [threading.Thread(target=put, args=(each,)) for each in drivers]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return results


def test_without_an_entry_in_the_log_positions_come_from_the_rows(
    delta: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    rows(delta, 0, 25).write.format("delta").save(path)
    table = DeltaTable(delta, path)
    assert table.owner() is None
    assert table.positions_before(batch_of(0)) == {AIR: 25}


def test_a_table_is_partitioned_by_columns(delta: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable(delta, str(tmp_path / "table"), ["topic", "partition"])
    table.begin()
    assert table.put(rows(delta, 0, 10), batch_of(0)) == 10
    assert (tmp_path / "table" / "topic=air" / "partition=0").is_dir()
    table.begin()
    assert table.put(rows(delta, 10, 10), batch_of(1)) == 10
    assert table.rows == 20


def test_a_table_of_another_form_is_refused(world: World, delta: SparkSession) -> None:
    world.ingest(world.stream(delta))
    world.format = PARQUET
    with pytest.raises(TableFormatError, match="of the format delta"):
        world.ingest(world.stream(delta))
