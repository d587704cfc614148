"""`audit`: one Spark job checks all segments of a data folder, with a task per segment."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from kohort.pipeline.audit.walk import Findings, Kind, Problem, walk
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.options import TopicChoice
from kohort.pipeline.segment_files import PartitionFiles, Segment, find_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPACTED_BY_NATURE = ("__consumer_offsets", "__transaction_state", "__share_group_state")
TASK = "path string, topic string, partition int, base_offset long, is_last boolean, may_have_gaps boolean"
FOUND = (
    "what string, path string, topic string, partition int, base_offset long, may_have_gaps boolean,"
    " kind string, position long, offset long, text string,"
    " batches long, records long, size_bytes long, first_offset long, next_offset long,"
    " producer_id long, producer_epoch int, base_sequence int, last_sequence int"
)
SEGMENT, PROBLEM, PRODUCER_BATCH = "segment", "problem", "batch"
PROBLEM_COLUMNS = ("topic", "partition", "path", "kind", "position", "offset", "text")


class AuditError(PipelineError):
    """A folder that holds no partition's files."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit has found. `problems` and `partitions` are tables; the numbers are their sums."""

    problems: DataFrame
    """topic, partition, path, kind, position, offset, text"""
    partitions: DataFrame
    """topic, partition, segments, batches, records, size_bytes, first_offset, next_offset, problems"""
    segments: int
    batches: int
    records: int
    size_bytes: int
    problem_count: int

    def release(self) -> None:
        """Let Spark remove the cached tables."""
        self.problems.unpersist()
        self.partitions.unpersist()


def audit(
    spark: SparkSession,
    path: str,
    *,
    topics: Collection[str] = (),
    compacted: Collection[str] = (),
    deep: bool = False,
) -> Audit:
    """Look at all segments of a data folder, or of some topics; nothing is changed.

    The folder has to be reachable by its path for driver and executors. `compacted` topics may have gaps;
    `deep` decodes every record as well. Raises: AuditError.
    """
    tasks = [task for each in partitions_in(path, topics) for task in _tasks(each, compacted)]
    frame = spark.createDataFrame(tasks, TASK).repartition(min(len(tasks), 10_000), "path")
    findings = frame.mapInArrow(_looked_at(deep=deep), FOUND).persist()  # type: ignore[arg-type]  # Its annotation asks for RecordBatch of pyarrow's stubs.
    return _put_together(findings)


def partitions_in(path: str, topics: Collection[str] = ()) -> list[PartitionFiles]:
    """Return the partitions that `audit` checks. Raises: AuditError where there is none."""
    folder = Path(path)
    choice = TopicChoice(tuple(topics)) if topics else TopicChoice(pattern=".*")
    found = find_partitions(folder, choice) if folder.is_dir() else []
    if not found:
        raise AuditError(f"{path} holds no segments{' of ' + ', '.join(topics) if topics else ''}")
    return found


def _tasks(files: PartitionFiles, compacted: Collection[str]) -> Iterator[tuple[object, ...]]:
    topic, partition = files.partition
    may_have_gaps = topic in compacted or topic in COMPACTED_BY_NATURE
    for segment in files.segments:
        is_last = segment is files.segments[-1]
        yield str(segment.path), topic, partition, segment.base_offset, is_last, may_have_gaps


def _looked_at(*, deep: bool) -> object:
    """Return the function of a task: rows about segments in, rows about their content out."""

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.to_pylist():
                yield _rows(task, deep=deep)

    return look


def _rows(task: dict[str, object], *, deep: bool) -> pa.RecordBatch:
    segment = Segment(Path(str(task["path"])), int(str(task["base_offset"])))
    try:
        found = walk(
            segment, is_last=bool(task["is_last"]), may_have_gaps=bool(task["may_have_gaps"]), deep=deep
        )
    except OSError as error:  # Retention may have taken it since it was listed.
        found = Findings(problems=[Problem(Kind.UNREADABLE, 0, segment.base_offset, str(error))])
    place = {name: task[name] for name in ("path", "topic", "partition", "base_offset", "may_have_gaps")}
    rows = [
        {
            "what": SEGMENT,
            "batches": found.batches,
            "records": found.records,
            "size_bytes": found.size_bytes,
            "first_offset": found.first_offset,
            "next_offset": found.next_offset,
        }
    ]
    rows += [
        {
            "what": PROBLEM,
            "kind": each.kind.value,
            "position": each.position,
            "offset": each.offset,
            "text": each.text,
        }
        for each in found.problems
    ]
    rows += [
        {
            "what": PRODUCER_BATCH,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "base_sequence": each.base_sequence,
            "last_sequence": each.last_sequence,
            "offset": each.offset,
        }
        for each in found.producer_batches
    ]
    return pa.RecordBatch.from_pylist([place | row for row in rows], schema=_ARROW)


_TYPES = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "boolean": pa.bool_()}
_ARROW = pa.schema([(name, _TYPES[kind]) for name, kind in (each.split() for each in FOUND.split(","))])


def _put_together(findings: DataFrame) -> Audit:
    segments = findings.where(F.col("what") == SEGMENT)
    problems = (
        findings.where(F.col("what") == PROBLEM)
        .select(*PROBLEM_COLUMNS)
        .unionByName(_between_segments(segments))
        .unionByName(_brought_twice(findings.where(F.col("what") == PRODUCER_BATCH)))
        .orderBy("topic", "partition", "path", "position")
        .persist()
    )
    counted = problems.groupBy("topic", "partition").agg(F.count("*").alias("problems"))
    partitions = (
        segments.groupBy("topic", "partition")
        .agg(
            F.count("*").alias("segments"),
            *(F.sum(name).alias(name) for name in ("batches", "records", "size_bytes")),
            F.min(F.when(F.col("batches") > 0, F.col("first_offset"))).alias("first_offset"),
            F.max(F.when(F.col("batches") > 0, F.col("next_offset"))).alias("next_offset"),
        )
        .join(counted, ["topic", "partition"], "left")
        .fillna(0, ["problems"])
        .orderBy("topic", "partition")
        .persist()
    )
    names = ("segments", "batches", "records", "size_bytes", "problems")
    total = partitions.agg(*(F.sum(name).alias(name) for name in names)).collect()[0]
    findings.unpersist()
    return Audit(problems, partitions, *(int(total[name]) for name in names))


def _between_segments(segments: DataFrame) -> DataFrame:
    """Return the problems between one segment of a partition and the next that has a batch."""
    in_order = Window.partitionBy("topic", "partition").orderBy("base_offset")
    before = F.lag("next_offset").over(in_order)
    joints = segments.where(F.col("batches") > 0).withColumn("before", before)
    overlap = F.col("first_offset") < F.col("before")
    gap = (F.col("first_offset") > F.col("before")) & ~F.col("may_have_gaps")
    text = F.concat(F.lit("the segment before it ends at "), F.col("before").cast("string"))
    return joints.where(overlap | gap).select(
        "topic",
        "partition",
        "path",
        F.when(overlap, Kind.ORDER.value).otherwise(Kind.GAP.value).alias("kind"),
        F.lit(0).cast("long").alias("position"),
        F.least("first_offset", "before").alias("offset"),
        text.alias("text"),
    )


def _brought_twice(batches: DataFrame) -> DataFrame:
    """Return the batches that lie in a partition a second time, by their producers' numbers."""
    same = ("topic", "partition", "producer_id", "producer_epoch", "base_sequence", "last_sequence")
    first = F.min("offset").over(Window.partitionBy(*same))
    return (
        batches.withColumn("first", first)
        .where(F.col("offset") > F.col("first"))
        .select(
            "topic",
            "partition",
            "path",
            F.lit(Kind.DUPLICATE.value).alias("kind"),
            F.lit(-1).cast("long").alias("position"),
            "offset",
            F.concat(F.lit("the same batch as at offset "), F.col("first").cast("string")).alias("text"),
        )
    )
