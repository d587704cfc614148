"""`replay`: reads a bounded range of topics again, independent of the live readers. No group is touched.

The ends of a range are places as in format("kohort"): earliest, latest, timestamp:..., group:NAME (the
current offsets of that group), offsets as JSON; and group:NAME@TIME, the group's offsets at that time, from
its commits in `__consumer_offsets`, as far back as the cleaner has kept them.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kohort.client import TopicPartition
from kohort.pipeline.analytics.tables import CONSUMER_OFFSETS, commits, read_topic
from kohort.pipeline.errors import OptionError
from kohort.pipeline.offsets import encode_offsets
from kohort.pipeline.options import parse_time_ms
from kohort.pipeline.servers import Servers, as_servers
from kohort.pipeline.writing import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP, AT = "group:", "@"
EARLIEST = -2


def replay(
    spark: SparkSession,
    bootstrap: str | Servers,
    topics: Sequence[str],
    *,
    starting: str = "earliest",
    ending: str = "latest",
    include_headers: bool = False,
) -> DataFrame:
    """Return the records of a range: write them wherever Spark can, as often as need be.

    Raises: OptionError for an invalid place, or a group that had committed nothing at that time.
    """
    reader = spark.read.format("kohort").options(**as_servers(bootstrap).options())
    reader = reader.option("topics", ",".join(topics))
    for name, place in (("starting", starting), ("ending", ending)):
        reader = reader.option(name, _resolved(spark, bootstrap, topics, place))
    return reader.option("include_headers", str(include_headers).lower()).load()


def write_to_topic(
    frame: DataFrame, bootstrap: str | Servers, topic: str, *, name: str | None = None
) -> Written:
    """Write a replayed range to a topic, partitions chosen by the keys; return how many rows that were.

    With a `name`, a repetition of the same range under it adds nothing to the topic.
    """
    columns = [each for each in ("key", "value", "headers") if each in frame.columns]
    writer = frame.select(*columns).write.format("kohort").mode("append")
    writer = writer.options(**as_servers(bootstrap).options()).option("topic", topic)
    if name is not None:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        writer = writer.option("writer", f"replay-{digest}").option("batch", "0")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        writer.option("report", str(report)).save()
        return Written(**json.loads(report.read_text()))


def group_at(
    spark: SparkSession, bootstrap: str | Servers, group: str, at_ms: int
) -> dict[TopicPartition, int]:
    """Return the group's committed offsets at a time, for each partition that it had read by then."""
    of_group = commits(read_topic(spark, CONSUMER_OFFSETS, bootstrap=bootstrap)).where(
        (F.col("group_id") == group) & (F.col("committed_ms") <= at_ms)
    )
    newest = F.max_by("committed_offset", "log_offset").alias("offset")
    rows = of_group.groupBy("topic", "partition").agg(newest).collect()
    return {TopicPartition(row["topic"], row["partition"]): row["offset"] for row in rows}


def _resolved(spark: SparkSession, bootstrap: str | Servers, topics: Sequence[str], place: str) -> str:
    """Return a place as the reader takes it."""
    if not place.startswith(GROUP) or AT not in place:
        return place
    group, _, at = place.removeprefix(GROUP).rpartition(AT)
    found = group_at(spark, bootstrap, group, parse_time_ms("group", at))
    if not any(each.topic in topics for each in found):
        raise OptionError(f"group {group!r} had committed nothing of {', '.join(topics)} at {at}")
    return json.dumps(_complete(bootstrap, topics, found))


def _complete(
    bootstrap: str | Servers, topics: Sequence[str], found: Mapping[TopicPartition, int]
) -> dict[str, dict[str, int]]:
    """Return an offset for every partition: the reader asks for all, and a group may not have read each."""
    with as_servers(bootstrap).admin() as admin:
        described = admin.describe_topics(*topics)
    every = [
        TopicPartition(name, each.partition) for name, topic in described.items() for each in topic.partitions
    ]
    return encode_offsets({each: found.get(each, EARLIEST) for each in every})
