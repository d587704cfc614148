"""A Delta Lake table, which every reader of Delta reads.

A batch is one version of the table. Delta takes it with a transaction of our application, whose number must
be higher than the last: a driver that read the table before another driver wrote a batch is refused by Delta,
or ignored, and detects that here. The number is one more than that of the last batch it saw: all drivers
that saw the same batch take the same number, even if the table was compacted in between. The version itself
names its batch (`delta_log`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from kohort.client import TopicPartition
from kohort.pipeline.delta import require_delta
from kohort.pipeline.ingest.batch_table import Batch, require_place
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.ingest.delta_log import APPLICATION, DeltaLog, Put
from kohort.pipeline.ingest.folder import open_folder
from kohort.pipeline.ingest.noted_table import NotedTable
from kohort.pipeline.ingest.word import Word, taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFLICT = re.compile(r"\[DELTA_(?:CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED)")
"""The errors with which Delta refuses a write that was planned before another driver changed the table."""


class DeltaTable(NotedTable):
    """Puts batches into a Delta table, each as one version."""

    def __init__(self, spark: SparkSession, path: str, partition_by: Sequence[str] = ()) -> None:
        """Look at the table, which need not be there yet. Raises: NoDeltaError, DeltaLogError."""
        require_delta(spark)
        folder = open_folder(spark, path)
        self._spark = spark
        self._uri = folder.uri
        self._log = DeltaLog(folder)
        self._partition_by = tuple(partition_by)
        self._version = -1
        self._last: Put | None = None
        self._look()

    @property
    def uri(self) -> str:
        """The table's name as Spark takes it."""
        return self._uri

    @property
    def rows(self) -> int:
        """The rows in the table, which Delta counts from its log."""
        if self._version < 0:
            return 0
        return self._spark.read.format("delta").load(self._uri).count()

    @property
    def last_word(self) -> Word | None:
        """The note on the newest batch, None where the log has none."""
        return None if self._last is None else self._last.word

    def begin(self) -> None:
        """Read the batches of other writers."""
        self._look()

    def put(self, frame: DataFrame, batch: Batch) -> int:
        """Put a batch in, as one version of the table; return how many rows it has.

        Raises: TableTakenError where another driver was quicker.
        """
        token = uuid.uuid4().hex
        seen, number = self._version, self._next_number()
        writer = frame.write.format("delta").mode("append")
        writer = writer.option("txnAppId", APPLICATION).option("txnVersion", str(number))
        writer = writer.option("userMetadata", self.note_on(batch, token))
        try:
            writer.partitionBy(*self._partition_by).save(self._uri)
        except (PySparkException, Py4JJavaError) as error:
            if CONFLICT.search(str(error)) is None:
                raise
            raise taken(self._uri) from error
        put = self._log.last_put(above=seen)
        if put is None or put.word.token != token:
            raise taken(self._uri)
        self._version, self._last = put.version, put
        return put.rows

    def _next_number(self) -> int:
        """Return a number that another driver uses up as soon as it writes the next batch.

        Where the log has no number any more, the version is used: no number was ever higher.
        """
        return self._version + 1 if self._last is None else self._last.number + 1

    def _look(self) -> None:
        self._version = self._log.version()
        self._last = self._log.last_put() or self._last

    def positions_of_rows(self) -> Offsets:
        """Return the next offset of each partition by the rows. Raises: DataLossError."""
        if self._version < 0:
            return {}
        frame = self._spark.read.format("delta").load(self._uri)
        require_place(
            frame.columns, f"the log of {self._uri} does not say any more which offsets are in the table"
        )
        rows = frame.groupBy("topic", "partition").agg(F.max("offset").alias("offset")).collect()
        return {TopicPartition(row["topic"], row["partition"]): int(row["offset"]) + 1 for row in rows}
