"""One run of an ingest as a process of its own, which dies at a moment that the test has chosen.

The moments are put in from here, around the pipeline's own functions: what ships has no such hooks. Dying is
SIGKILL for the whole process group, so that Python and Spark's JVM end in the same instant, and neither gets
to say goodbye. Where it is the broker that is killed, the test's own session runs the ingest, and waits at
the moment until the broker is gone.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

from pyarrow import RecordBatch
from pyspark.sql import DataFrame, SparkSession

from kohort.pipeline.delta import delta_settings
from kohort.pipeline.ingest import Summary, ingest
from kohort.pipeline.ingest.delta_log import LOG
from kohort.pipeline.ingest.delta_table import DeltaTable
from kohort.pipeline.ingest.formats import DELTA, FORMATS, ICEBERG, PARQUET
from kohort.pipeline.ingest.group_offsets import BrokerGroup
from kohort.pipeline.ingest.iceberg_log import IcebergLog
from kohort.pipeline.ingest.iceberg_table import FOLDER, IcebergTable
from kohort.pipeline.ingest.manifest import ManifestLog
from kohort.pipeline.ingest.parquet_table import ParquetTable
from kohort.pipeline.session import local_session
from tests.interop.kafka_tools import jars
from tests.interop.waiting import wait_until

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Put = Callable[[object, str, object], None]
"""Puts something in the place of an attribute: setattr, or what takes it back when a test is over."""

BEFORE_WRITE = "before the sink's write"
IN_WRITE = "in the sink's write"
AFTER_WRITE = "after the files, before the manifest"
AFTER_MANIFEST = "after the manifest, before Spark's commit"
BEFORE_GROUP = "after Spark's commit, before the group's"
AFTER_GROUP = "after the group's commit"
MOMENTS = (BEFORE_WRITE, IN_WRITE, AFTER_WRITE, AFTER_MANIFEST, BEFORE_GROUP, AFTER_GROUP)
BATCH = 1
"""The moment comes in this batch: there is one before it that could be lost or doubled."""
REACHED, GO_ON = "reached", "go-on"
DATA = "table/data"
WAREHOUSE = "warehouse"
CATALOG = "lake"
ROWS = 200
"""So many records are a batch, half of them from each partition."""
DEADLY_OFFSET = 150
"""Of partition 0, in that batch."""
PATIENCE_S = 180.0


def deadly_for(group: int) -> Callable[[], None]:
    """Return what ends a process group, this process and its JVM, at once; workers are in another one."""

    def die() -> None:
        os.killpg(group, signal.SIGKILL)

    return die


def wait_in(folder: Path) -> Callable[[], None]:
    """Return what says in a folder that the moment has come, and waits there to be let go on."""

    def wait() -> None:
        (folder / REACHED).touch()
        until((folder / GO_ON).exists)

    return wait


def until(happened: Callable[[], bool]) -> None:
    """Return when it has happened."""
    wait_until(happened, "what the test waits for", PATIENCE_S)


def wrapped(
    call: Callable[Parameters, Result], happen: Callable[[], None], batch: int, *, before: bool
) -> Callable[Parameters, Result]:
    """Return the call, before or behind which something happens once so many have passed."""
    calls = 0

    @functools.wraps(call)
    def wrapper(*args: Parameters.args, **named: Parameters.kwargs) -> Result:
        nonlocal calls
        calls += 1
        is_due = calls == batch + 1
        if is_due and before:
            happen()
        result = call(*args, **named)
        if is_due and not before:
            happen()
        return result

    return wrapper


def arrange(moment: str, happen: Callable[[], None], batch: int = BATCH, put: Put = setattr) -> None:
    """Have something happen at that moment; IN_WRITE is `deadly`'s."""
    if moment in {BEFORE_WRITE, AFTER_WRITE}:
        write = wrapped(ParquetTable._write_files, happen, batch, before=moment == BEFORE_WRITE)
        put(ParquetTable, "_write_files", write)
        put(DeltaTable, "put", wrapped(DeltaTable.put, happen, batch, before=True))
        write = wrapped(IcebergTable._write_files, happen, batch, before=moment == BEFORE_WRITE)
        put(IcebergTable, "_write_files", write)
    elif moment == AFTER_MANIFEST:
        put(ManifestLog, "append", wrapped(ManifestLog.append, happen, batch, before=False))
        put(DeltaTable, "put", wrapped(DeltaTable.put, happen, batch, before=False))
        put(IcebergLog, "add", wrapped(IcebergLog.add, happen, batch, before=False))
    elif moment in {BEFORE_GROUP, AFTER_GROUP}:
        commit = wrapped(BrokerGroup.commit, happen, batch, before=moment == BEFORE_GROUP)
        put(BrokerGroup, "commit", commit)


def deadly(stream: DataFrame, offset: int, folder: Path, happen: Callable[[], None]) -> DataFrame:
    """Return the stream, of which one record of partition 0 lets it happen while its batch is written.

    The task of partition 1 has written its file by then, and that of partition 0 has not.
    """

    def watch(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        for batch in batches:
            yield batch
            places = zip(
                batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True
            )
            if (0, offset) in places and not (folder / GO_ON).exists():
                until(lambda: bool(half_written(folder)))
                happen()

    return stream.mapInArrow(watch, stream.schema)


def table_in(folder: Path, form: str) -> str:
    """Return the table of a test's folder: it is in it, and Iceberg's has a name."""
    return f"{CATALOG}.tests.flights" if form == ICEBERG else str(folder / "table")


def iceberg_catalog(folder: Path) -> dict[str, str]:
    """Return the environment by which pyiceberg has a catalog in a test's folder."""
    begin = f"PYICEBERG_CATALOG__{CATALOG.upper()}__"
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder / WAREHOUSE}"
    return {f"{begin}URI": uri, f"{begin}WAREHOUSE": warehouse}


def half_written(folder: Path) -> list[Path]:
    """Return the files of tasks that are done in batches that are not."""
    if (folder / WAREHOUSE).exists():
        return sorted((folder / WAREHOUSE).glob(f"*/*/{FOLDER}*/_temporary/0/task_*/*.parquet"))
    if (folder / "table" / LOG).exists():
        return files_in_no_version(folder / "table")
    return sorted((folder / DATA).glob("*batch-*/_temporary/0/task_*/*.parquet"))


def files_in_no_version(table: Path) -> list[Path]:
    """Return the files of a Delta table that no version has."""
    told = "".join(each.read_text() for each in (table / LOG).glob("*.json"))
    return sorted(each for each in table.glob("part-*.parquet") if each.name not in told)


def session_for(form: str) -> SparkSession:
    """Return a session of this process's own that writes tables of that form."""
    if form != DELTA:
        return local_session("ingest")
    found = sorted(jars("delta").glob("*.jar"))
    return local_session("ingest", jars=found, settings=delta_settings(fetch=False))


def stream_of(spark: SparkSession, options: Namespace) -> DataFrame:
    reader = spark.readStream.format("kohort").option("bootstrap", options.bootstrap)
    reader = reader.option("topics", options.topic).option("starting", "earliest")
    return reader.option("max_rows_per_trigger", str(options.rows)).load()


def run(options: Namespace) -> Summary:
    happen = deadly_for(os.getpgid(0))
    if options.at:
        arrange(options.at, happen)
    spark = session_for(options.format)
    stream = stream_of(spark, options)
    if options.at == IN_WRITE:
        stream = deadly(stream, DEADLY_OFFSET, options.folder, happen)
    job = ingest(
        stream,
        table_in(options.folder, options.format),
        str(options.folder / "checkpoint"),
        options.group,
        options.bootstrap,
        resume=options.resume,
        format=options.format,
    )
    with job:
        job.wait()
        return job.stop()


def main() -> int:
    parser = ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--at", choices=MOMENTS)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--format", choices=FORMATS, default=PARQUET)
    summary = run(parser.parse_args())
    told = {"rows": summary.rows, "batch": summary.batch_id, "error": summary.group.error}
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
