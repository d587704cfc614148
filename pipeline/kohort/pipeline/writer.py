"""The writers that Spark calls: for one job's rows, and for a stream's batches.

The promise: the rows of a batch are written once, despite retries, kills and second runs, as long as the
query gives the same rows in the same order to the same tasks (a topic read by offsets does; a shuffle whose
order depends on timing does not), the topic keeps its number of partitions, and the broker remembers the
task's numbers (producer.id.expiration.ms, a day, counted from the newest timestamp that it wrote). A reader
may see a batch's first rows before its last: there is no transaction around them. `kohort.pipeline.identity`
says how.
"""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructType, TimestampType

from kohort.pipeline.brokers import Brokers
from kohort.pipeline.errors import OptionError, PipelineError
from kohort.pipeline.identity import identity
from kohort.pipeline.options import WriteOptions
from kohort.pipeline.rows import TABLE
from kohort.pipeline.writing import RowWriter

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark gives the tasks of a streaming query; the query's id is in the checkpoint and stays the same."""

_TEXTS = (StringType(), BinaryType())
_TAKEN = {
    "key": _TEXTS,
    "value": _TEXTS,
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
    "headers": (TABLE["headers"].dataType,),
}


@dataclass
class TaskWritten(WriterCommitMessage):
    """The report of a task: rows written, and rows that an earlier run had written."""

    rows: int
    repeated: int


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a job; its tasks may be retried, or run twice at the same time."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        check_rows(options, schema)
        if overwrite:
            raise OptionError("a topic can't be overwritten: write with mode('append')")
        self._options = options
        self._writer = options.writer or str(uuid.uuid4())  # Made on the driver: all attempts share it.

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Return when this task's rows are acknowledged. Raises: KohortError, StaleBatchError."""
        return write_rows(self._options, self._writer, self._options.batch or 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Report the results of the tasks. Spark calls it on the driver, in a separate process."""
        if self._options.report is not None:
            done = [each for each in messages if isinstance(each, TaskWritten)]
            rows, repeated = sum(each.rows for each in done), sum(each.repeated for each in done)
            Path(self._options.report).write_text(json.dumps({"rows": rows, "repeated": repeated}))


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes a query's batches, each once."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_rows(options, schema)
        if options.batch is not None:
            raise OptionError("a stream counts its batches by itself: leave out 'batch'")
        if options.report is not None:
            raise OptionError("a stream reports in its progress: leave out 'report'")
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Return when this task's rows are acknowledged. Raises: KohortError, StaleBatchError."""
        context = _task()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise PipelineError("Spark has not told the task its query's id and its batch's number")
        return write_rows(self._options, self._options.writer or query, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: the rows of the tasks are acknowledged and numbered."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: the batch runs again and skips the written rows."""


def check_rows(options: WriteOptions, schema: StructType) -> None:
    """Return if rows of this schema can be written. Raises: OptionError."""
    for each in schema:
        if each.dataType not in _TAKEN.get(each.name, ()):
            told = ", ".join(f"{name} {kinds[-1].simpleString()}" for name, kinds in _TAKEN.items())
            raise OptionError(
                f"a row's {each.name} {each.dataType.simpleString()} can't be written; {told} can"
            )
    if "value" not in schema.names:
        raise OptionError("rows need a column 'value'")
    if options.topic is None and "topic" not in schema.names:
        raise OptionError("give the option 'topic', or a column 'topic' in the rows")


def write_rows(
    options: WriteOptions, writer: str, batch: int, batches: Iterator[pa.RecordBatch]
) -> TaskWritten:
    """Return when the rows are acknowledged. Raises: KohortError, StaleBatchError, OptionError."""
    task = _task().partitionId()
    with Brokers(options.servers, options.timeout_ms) as brokers:
        rows = RowWriter(options, brokers, identity(writer, batch, task), task)
        for each in batches:
            _write_batch(options, rows, each)
        written = rows.finish()
    return TaskWritten(written.rows, written.repeated)


def _write_batch(options: WriteOptions, rows: RowWriter, batch: pa.RecordBatch) -> None:
    count = batch.num_rows
    names = set(batch.schema.names)

    def column(name: str) -> list[object]:
        return batch.column(name).to_pylist() if name in names else [None] * count

    def binary(name: str) -> list[bytes | None]:
        return batch.column(name).cast(pa.binary()).to_pylist() if name in names else [None] * count

    topics = [options.topic] * count if options.topic is not None else column("topic")
    now_ms = time.time_ns() // 1_000_000
    times: list[int | None] = [None] * count
    if "timestamp" in names:
        times = [
            each if each is None else each // 1000
            for each in batch.column("timestamp").cast(pa.int64()).to_pylist()
        ]
    for topic, partition, key, value, time_ms, headers in zip(
        topics, column("partition"), binary("key"), binary("value"), times, column("headers"), strict=True
    ):
        if topic is None:
            raise OptionError("a row's topic is null, and the option 'topic' is not given")
        pairs = tuple((each["key"], each["value"]) for each in headers) if headers else ()
        rows.write(topic, partition, (now_ms if time_ms is None else time_ms, key, value, pairs))


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise PipelineError("this runs in a Spark task only")
    return context
