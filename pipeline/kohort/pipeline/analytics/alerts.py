"""`watch`: a streaming job that follows the broker's own topics and writes alerts about groups to a topic.

An alert is JSON with the group's id as its key. It is written at least once: after a restart, an alert whose
cause still exists is written again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F

from kohort.client import KohortError, TopicPartition
from kohort.pipeline.analytics.alert_board import Alert, AlertBoard, VerdictAlert
from kohort.pipeline.analytics.decoding import Cells, Raw, commit_row
from kohort.pipeline.analytics.ends import Ends
from kohort.pipeline.analytics.storms import Rebalance
from kohort.pipeline.analytics.tables import CONSUMER_OFFSETS, GROUP_EVENTS, commits, read_topic
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.offsets import encode_offsets
from kohort.pipeline.running import RunningQuery
from kohort.pipeline.servers import Servers, as_servers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = ("topic", "partition", "offset", "key", "value")
ALERT = "key string, value string"
Hear = Callable[[Alert], None]


class _Cause(msgspec.Struct):
    kind: str
    client_id: str = ""


class _Report(msgspec.Struct):
    cause: _Cause
    started_ms: int
    still_ms: int


class _Completed(msgspec.Struct):
    """The fields of a RebalanceCompleted event that are needed here."""

    group_id: str
    report: _Report


class WatchError(PipelineError):
    """There is no topic to write to, or none to watch."""


@dataclass(frozen=True, slots=True)
class WatchSummary:
    """The result of a watch so far; `verdicts` counts the alerts by verdict."""

    looks: int
    groups: int
    partitions: int
    verdicts: dict[str, int]
    storms: int
    error: str | None
    """Why the last look failed, if it did: the next one makes up for it."""

    @property
    def alerts(self) -> int:
        """How many were written."""
        return sum(self.verdicts.values()) + self.storms


class _Watcher:
    """The state that the driver keeps between two batches. Called in Spark's one thread for the query."""

    def __init__(
        self, spark: SparkSession, servers: Servers, topic: str, interval_ms: int, hear: Hear | None
    ) -> None:
        self._spark = spark
        self._servers = servers
        self._topic = topic
        self._hear = hear
        self._board = AlertBoard(interval_ms)
        self._ends = Ends(servers)
        self._looks = 0
        self._told: Counter[str] = Counter()
        self._storms = 0
        self._error: str | None = None

    def close(self) -> None:
        """Close the connections."""
        self._ends.close()

    def summary(self) -> WatchSummary:
        """Return the result so far."""
        return WatchSummary(
            looks=self._looks,
            groups=len(self._board.groups),
            partitions=len(self._board.partitions),
            verdicts=dict(self._told),
            storms=self._storms,
            error=self._error,
        )

    def begin(self) -> None:
        """Take over the committed offsets so far: the first look reports a group that stopped long ago."""
        newest = F.max_by(F.struct("committed_offset", "committed_ms"), "log_offset").alias("newest")
        so_far = commits(read_topic(self._spark, CONSUMER_OFFSETS, bootstrap=self._servers))
        rows = so_far.groupBy("group_id", "topic", "partition").agg(newest).select("*", "newest.*").collect()
        self._take(row.asDict() for row in rows)
        then_ms = time.time_ns() // 1_000_000 - self._board.patience_ms
        self._board.was_behind(self._ends.at(dict.fromkeys(self._board.partitions, then_ms)), then_ms)

    def batch(self, frame: DataFrame, batch_id: int) -> None:
        """Take over the commits and rebalances of a batch, and write the new alerts.

        An interval has few changes: they are decoded here, in the process of the alert board.
        """
        for row in frame.where(F.col("topic").isNotNull()).orderBy("topic", "partition", "offset").collect():
            if row["topic"] == CONSUMER_OFFSETS:
                cells = commit_row(Raw(row["partition"], row["offset"], row["key"], row["value"]))
                self._take([cells] if cells is not None else [])
            else:
                self._note(row["value"] or b"")
        try:
            self._ends.forget()  # Topics can be created and deleted while it watches.
            ends = self._ends.now(self._board.partitions)
        except KohortError as error:
            if not error.retriable:
                raise
            self._error = str(error)
            return
        self._error = None
        self._write(self._board.look(ends, time.time_ns() // 1_000_000))
        self._looks += 1

    def _note(self, value: bytes) -> None:
        """Take an event over if it reports a completed rebalance."""
        try:
            told = msgspec.json.decode(value, type=_Completed)
        except msgspec.DecodeError:  # Another kind of event has no report.
            return
        cause = told.report.cause
        rebalance = Rebalance(told.report.started_ms, told.report.still_ms, cause.kind, cause.client_id)
        self._board.rebalance(told.group_id, rebalance)

    def _take(self, commits_: Iterable[Cells]) -> None:
        for each in commits_:
            topic, partition, offset = each["topic"], each["partition"], each["committed_offset"]
            assert isinstance(topic, str)
            assert isinstance(partition, int)
            assert offset is None or isinstance(offset, int)
            if not topic.startswith("__"):
                place = TopicPartition(topic, partition)
                committed_ms = each["committed_ms"]
                at_ms = committed_ms if isinstance(committed_ms, int) else 0
                self._board.commit(str(each["group_id"]), place, offset, at_ms)

    def _write(self, alerts: Sequence[Alert]) -> None:
        if alerts:
            rows = [(each.group_id, msgspec.json.encode(each).decode()) for each in alerts]
            writer = self._spark.createDataFrame(rows, ALERT).write.format("kohort").mode("append")
            writer.options(**self._servers.options()).option("topic", self._topic).save()
        for each in alerts:
            if isinstance(each, VerdictAlert):
                self._told[each.verdict] += 1
            else:
                self._storms += 1
            if self._hear is not None:
                self._hear(each)


class Watch(RunningQuery[WatchSummary]):
    """A watch that runs; a context manager that stops it."""

    def __init__(self, query: StreamingQuery, watcher: _Watcher) -> None:
        super().__init__(query)
        self._watcher = watcher

    @property
    def summary(self) -> WatchSummary:
        """The result so far."""
        return self._watcher.summary()

    def stop(self) -> WatchSummary:
        """Stop the query if it runs, and return its result."""
        self.query.stop()
        self._watcher.close()
        return self.summary


def watch(
    spark: SparkSession,
    bootstrap: str | Servers,
    topic: str,
    *,
    every_s: float = 10.0,
    hear: Hear | None = None,
) -> Watch:
    """Start to write alerts about all groups to a topic, and return the running watch.

    It looks every `every_s` seconds, whether anything was committed or not: silence is what STOP is about.
    `hear` is called with each written alert, in a thread of Spark. Raises: WatchError,
    KohortError.
    """
    servers = as_servers(bootstrap)
    starting = places_to_watch(servers, topic)
    watcher = _Watcher(spark, servers, topic, int(every_s * 1000), hear)
    try:
        watcher.begin()  # Commits made meanwhile are read again: none is lost between the two reads.
        query = _start(spark, servers, starting, watcher, every_s)
    except BaseException:
        watcher.close()
        raise
    return Watch(query, watcher)


def places_to_watch(bootstrap: str | Servers, topic: str) -> dict[TopicPartition, int]:
    """Return where the broker's own topics end now, if there is a topic for alerts.

    Raises: WatchError, KohortError.
    """
    with Ends(bootstrap) as ends:
        if not ends.partitions_of(topic):
            raise WatchError(f"there is no topic {topic!r} to write alerts to: create it first")
        found = ends.now(ends.partitions_of(CONSUMER_OFFSETS, GROUP_EVENTS))
    if not any(each.topic == CONSUMER_OFFSETS for each in found):
        raise WatchError(f"there is no {CONSUMER_OFFSETS} yet: no group has committed anything")
    return found


def _start(
    spark: SparkSession,
    servers: Servers,
    starting: dict[TopicPartition, int],
    watcher: _Watcher,
    every_s: float,
) -> StreamingQuery:
    reader = spark.readStream.format("kohort").options(**servers.options())
    reader = reader.option("topics", ",".join(sorted({each.topic for each in starting})))
    records = reader.option("starting", json.dumps(encode_offsets(starting))).load().select(*COLUMNS)
    ticks = spark.readStream.format("rate").option("rowsPerSecond", "1").option("numPartitions", "1").load()
    nothing = [F.lit(None).cast(each.dataType).alias(each.name) for each in records.schema]
    both = records.unionByName(ticks.select(*nothing))
    return both.writeStream.foreachBatch(watcher.batch).trigger(processingTime=f"{every_s} seconds").start()
