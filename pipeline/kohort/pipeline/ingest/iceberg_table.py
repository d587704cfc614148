"""An Iceberg table, for every reader of Iceberg: Spark writes a batch's files, pyiceberg adds them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from kohort.pipeline.iceberg import parse_name
from kohort.pipeline.ingest.batch_table import Batch
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.ingest.folder import Folder, open_folder
from kohort.pipeline.ingest.iceberg_log import IcebergLog, IcebergLogError
from kohort.pipeline.ingest.noted_table import NotedTable
from kohort.pipeline.ingest.table import FILE_ENDING, write_files
from kohort.pipeline.ingest.word import Word

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TIMES = "spark.sql.parquet.outputTimestampType"
MICROSECONDS = "TIMESTAMP_MICROS"
"""Iceberg does not know the times of 96 bits that Spark writes without this."""
FOLDER = "data/kohort-"
PARTITION = "_kohort_partition_"
"""How copies of columns begin that name folders: Iceberg wants the columns in the files as well."""


class IcebergTable(NotedTable):
    """Puts batches into an Iceberg table, each as one snapshot."""

    def __init__(self, spark: SparkSession, name: str, partition_by: Sequence[str] = ()) -> None:
        """Look at the table, which need not be there yet. Raises: NoIcebergError, IcebergLogError."""
        self._spark = spark
        self._log = IcebergLog(parse_name(name))
        self._partition_by = tuple(partition_by)
        if self._log.is_there and self._partition_by not in {(), self._log.partition_by}:
            raise IcebergLogError(
                f"{name} is partitioned by {', '.join(self._log.partition_by) or 'nothing'}, not by"
                f" {', '.join(self._partition_by)}"
            )

    @property
    def uri(self) -> str:
        """The table's name."""
        return str(self._log.name)

    @property
    def rows(self) -> int:
        """The rows in the table, which Iceberg counts."""
        return self._log.rows

    @property
    def last_word(self) -> Word | None:
        """The note on the newest batch, None where the table has none."""
        return self._log.last

    def begin(self) -> None:
        """Read the batches of other writers."""
        self._log.look()

    def positions_of_rows(self) -> Offsets:
        """Return the next offset of each partition by the rows. Raises: DataLossError."""
        return self._log.positions_of_rows() if self._log.rows else {}

    def put(self, frame: DataFrame, batch: Batch) -> int:
        """Put a batch in, as one snapshot of the table; return how many rows it has.

        Raises: TableTakenError where another driver was quicker, ColumnsError, IcebergLogError.
        """
        if not self._log.is_there:
            self._log.make(columns_of(frame.schema), self._partition_by)
        token = uuid.uuid4().hex
        note = self.note_on(batch, token)
        files, rows = self._write_files(frame, token)
        self._log.add(files, rows, note)
        return rows

    def _write_files(self, frame: DataFrame, token: str) -> tuple[list[str], int]:
        """Write a batch's files into a folder of their own; return their names, and the rows."""
        folder = f"{self._log.location}/{FOLDER}{token}"
        columns = self._log.partition_by
        copies = {f"{PARTITION}{number}": F.col(each) for number, each in enumerate(columns)}
        with _microseconds(frame.sparkSession):
            rows = write_files(frame.withColumns(copies), folder, *copies)
        names = _names_of_files(open_folder(self._spark, folder), len(columns))
        return [f"{folder}/{each}" for each in sorted(names)], rows


def columns_of(schema: StructType) -> pa.Schema:
    """Return the columns of a table for a stream's: each may be null, for what another batch may lack."""
    return to_arrow_schema(schema.toNullable(), timezone="UTC")


def _names_of_files(folder: Folder, levels: int) -> Iterator[str]:
    """Yield the names of the data files so many levels below a folder."""
    for name in folder.names():
        if levels and name.startswith(PARTITION):
            yield from (f"{name}/{each}" for each in _names_of_files(folder.child(name), levels - 1))
        elif not levels and name.endswith(FILE_ENDING) and not name.startswith(("_", ".")):
            yield name


@contextmanager
def _microseconds(spark: SparkSession) -> Iterator[None]:
    """Have the session write times as Iceberg has them, within the block."""
    before = str(spark.conf.get(TIMES))
    spark.conf.set(TIMES, MICROSECONDS)
    try:
        yield
    finally:
        spark.conf.set(TIMES, before)
