"""What a Parquet table takes in: batches with all their rows, in columns of one type."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kohort.client import TopicPartition
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.ingest import read_manifest
from kohort.pipeline.ingest.batch_table import Batch, ColumnsError
from kohort.pipeline.ingest.folder import LocalFolder
from kohort.pipeline.ingest.manifest import ManifestLog
from kohort.pipeline.ingest.parquet_table import ParquetTable

AIR = TopicPartition("air", 0)


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Return so many records in two tasks, each of which writes a file."""
    frame = spark.range(count, numPartitions=2)
    return frame.select(F.col("id").alias("offset"), F.col("id").cast("string").cast("binary").alias("value"))


def batch_of(number: int) -> Batch:
    return Batch("query", number, {AIR: 10 * (number + 1)})


def begun(path: Path) -> ParquetTable:
    table = ParquetTable(ManifestLog(LocalFolder(path)))
    table.begin()
    return table


def test_a_file_that_the_driver_does_not_see_is_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker shares the driver's folder, and the other has one of its own under the same name."""
    table = begun(tmp_path)
    names = LocalFolder.names

    def without_the_first(folder: LocalFolder) -> set[str]:
        found = names(folder)
        return found - set(sorted(each for each in found if each.endswith(".parquet"))[:1])

    monkeypatch.setattr(LocalFolder, "names", without_the_first)
    with pytest.raises(DataLossError, match=r"10 rows were written to .*, and the driver sees 5 there"):
        table.put(rows(spark, 10), batch_of(0))
    monkeypatch.undo()
    assert ManifestLog(LocalFolder(tmp_path)).read().entries == ()


def test_a_column_of_another_type_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = begun(tmp_path)
    assert table.put(rows(spark, 10), batch_of(0)) == 10
    decoded = rows(spark, 10).withColumn("value", F.struct(F.lit("AA").alias("carrier")))
    folders = LocalFolder(tmp_path / "data").names()
    with pytest.raises(ColumnsError, match=r"value is binary in .*, and struct<carrier:string> in the batch"):
        table.put(decoded, batch_of(1))
    assert LocalFolder(tmp_path / "data").names() == folders
    assert table.put(rows(spark, 10).withColumn("note", F.lit("new")), batch_of(1)) == 10
    notes = read_manifest(spark, str(tmp_path)).groupBy("note").count().collect()
    assert {row["note"]: row["count"] for row in notes} == {None: 10, "new": 10}


def test_a_batch_without_rows_is_in_the_table(spark: SparkSession, tmp_path: Path) -> None:
    table = begun(tmp_path)
    assert table.put(rows(spark, 0), batch_of(0)) == 0
    assert table.has(batch_of(0))
    assert read_manifest(spark, str(tmp_path)).count() == 0
