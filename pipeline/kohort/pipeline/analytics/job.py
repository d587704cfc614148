"""`analyse`: a broker's own topics, on Spark, to tables about its groups."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kohort.client import TopicPartition
from kohort.pipeline.analytics.arithmetic import Sample
from kohort.pipeline.analytics.ends import Ends
from kohort.pipeline.analytics.standing import Standing, standing
from kohort.pipeline.analytics.storms import Rebalance, Storm, find_storms
from kohort.pipeline.analytics.tables import (
    CONSUMER_OFFSETS,
    GROUP_EVENTS,
    commits,
    events,
    read_topic,
    rebalances,
)
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.servers import Servers
from kohort.protocol.verdict import COMMITS_KEPT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession, WindowSpec

TIMES = 60
KEY = ("group_id", "topic", "partition")
NOT_COMMITTED = -1
HOUR_MS = 3_600_000
MOVES_LEAST, MOVES_PER_HOUR = 3, 3.0
"""A partition moves too often after this many moves, and this many moves per hour."""
STANDINGS = (
    "group_id string, topic string, partition int, committed_offset long, end_offset long, lag long,"
    " verdict string, consumed_per_s double, produced_per_s double, drain_seconds double"
)
STORMS = (
    "group_id string, started_ms long, ended_ms long, rebalances int, still_ms long, still_share double,"
    " causes map<string,int>, clients map<string,int>"
)
ENDS = "topic string, partition int, at_ms long, end_offset long"


class AnalysisError(PipelineError):
    """There is nothing to analyse: no group has committed an offset."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The results as tables; times are milliseconds since 1970."""

    from_ms: int
    to_ms: int
    lag: DataFrame
    """group_id, topic, partition, at_ms, committed_offset, end_offset, lag, consumed_per_s, produced_per_s"""
    standings: DataFrame
    """group_id, topic, partition, committed_offset, end_offset, lag, verdict, paces, drain_seconds"""
    rebalances: DataFrame
    """group_id and the report of each rebalance"""
    storms: DataFrame
    """group_id, started_ms, ended_ms, rebalances, still_ms, still_share, causes, clients"""
    moves: DataFrame
    """group_id, topic, partition, moves, moves_per_hour, still_ms, too_often"""
    still: DataFrame
    """group_id, rebalances, still_ms, longest_ms, still_share"""

    def tables(self) -> Iterator[tuple[str, DataFrame]]:
        """Yield each table with its name."""
        for name in ("lag", "standings", "rebalances", "storms", "moves", "still"):
            yield name, getattr(self, name)

    def write(self, path: str) -> None:
        """Write each table as Parquet into a folder of its name."""
        for name, table in self.tables():
            table.coalesce(1).write.mode("overwrite").parquet(f"{path.rstrip('/')}/{name}")


def analyse(
    spark: SparkSession,
    bootstrap: str | Servers,
    *,
    groups: Collection[str] = (),
    folder: str = "",
    since_ms: int | None = None,
    times: int = TIMES,
) -> Analysis:
    """Return what the internal topics of a broker show about all groups, or about some of them.

    With `folder`, both topics are read from that data folder instead of over the network; the ends of
    partitions are always asked of the broker. Raises: AnalysisError, KohortError.
    """
    committed = _of(commits(read_topic(spark, CONSUMER_OFFSETS, bootstrap=bootstrap, folder=folder)), groups)
    committed = committed.where(~F.col("topic").startswith("__")).persist()
    told = rebalances(_of(_events(spark, bootstrap, folder), groups)).persist()
    to_ms = time.time_ns() // 1_000_000
    first_ms = committed.agg(F.min("committed_ms")).collect()[0][0]
    if first_ms is None:
        raise AnalysisError("no group has committed an offset that is still in the log")
    from_ms = max(int(first_ms), since_ms or 0)
    grid = _grid(from_ms, to_ms, times)
    with Ends(bootstrap) as ends:
        rows = committed.select("topic", "partition").distinct().collect()
        partitions = [TopicPartition(row["topic"], row["partition"]) for row in rows]
        over = [(*each, at_ms, end) for each, at_ms, end in ends.over(partitions, grid)]
        standings = _standings(committed, ends, to_ms)
    return Analysis(
        from_ms=from_ms,
        to_ms=to_ms,
        lag=_lag(committed, spark.createDataFrame(over, ENDS), grid).persist(),
        standings=spark.createDataFrame([_cells(each) for each in standings], STANDINGS),
        rebalances=told,
        storms=spark.createDataFrame(_storms(told), STORMS),
        moves=_moves(told, to_ms),
        still=_still(told, to_ms),
    )


def _events(spark: SparkSession, bootstrap: str | Servers, folder: str) -> DataFrame:
    """Return the events, none where the broker keeps none: Apache Kafka has no such topic."""
    with Ends(bootstrap) as ends:
        if not ends.existing([TopicPartition(GROUP_EVENTS, 0)]):
            return events(spark.createDataFrame([], "value binary, partition int, offset long"))
    return events(read_topic(spark, GROUP_EVENTS, bootstrap=bootstrap, folder=folder))


def _of(frame: DataFrame, groups: Collection[str]) -> DataFrame:
    return frame.where(F.col("group_id").isin(*groups)) if groups else frame


def _grid(from_ms: int, to_ms: int, times: int) -> list[int]:
    """Return the times at which to look, `to_ms` the last of them."""
    step_ms = max((to_ms - from_ms) // max(times - 1, 1), 1)
    return sorted({max(to_ms - number * step_ms, from_ms) for number in range(times)})


def _lag(committed: DataFrame, ends: DataFrame, grid: list[int]) -> DataFrame:
    """Return what each group had committed at each time of the grid, and what there was to read."""
    spark = committed.sparkSession
    times = spark.createDataFrame([(each,) for each in grid], "at_ms long")
    step_ms = max(grid[-1] - grid[-2], 1) if len(grid) > 1 else 1
    behind_ms = F.greatest(F.lit(grid[-1]) - F.col("committed_ms"), F.lit(0))
    number = F.floor(behind_ms / F.lit(step_ms))
    at = F.greatest(F.lit(grid[-1]) - number * F.lit(step_ms), F.lit(grid[0])).cast("long")
    offset = F.coalesce(F.col("committed_offset"), F.lit(NOT_COMMITTED))
    newest = F.max_by(offset, F.struct("log_partition", "log_offset")).alias("newest")
    dated = committed.where(F.col("committed_ms").isNotNull())
    in_buckets = dated.withColumn("at_ms", at).groupBy(*KEY, "at_ms").agg(newest)
    so_far = Window.partitionBy(*KEY).orderBy("at_ms")
    filled = F.last("newest", ignorenulls=True).over(so_far.rowsBetween(Window.unboundedPreceding, 0))
    seconds = (F.col("at_ms") - F.lag("at_ms").over(so_far)) / 1000
    return (
        committed.select(*KEY)
        .distinct()
        .crossJoin(times)
        .join(in_buckets, [*KEY, "at_ms"], "left")
        .withColumn("committed_offset", filled)
        .where(F.col("committed_offset") >= 0)
        .join(ends, ["topic", "partition", "at_ms"])
        .withColumn("lag", F.greatest(F.col("end_offset") - F.col("committed_offset"), F.lit(0)))
        .withColumn("consumed_per_s", _step("committed_offset", so_far) / seconds)
        .withColumn("produced_per_s", _step("end_offset", so_far) / seconds)
        .select(*KEY, "at_ms", "committed_offset", "end_offset", "lag", "consumed_per_s", "produced_per_s")
    )


def _step(name: str, so_far: WindowSpec) -> Column:
    """Return by how much a column has grown since the time before."""
    return F.col(name) - F.lag(name).over(so_far)


def _standings(committed: DataFrame, ends: Ends, now_ms: int) -> list[Standing]:
    """Return how each group does now: its last commits, and the ends at their times."""
    newest_first = Window.partitionBy(*KEY).orderBy(F.desc("log_offset"))
    numbered = committed.withColumn("number", F.row_number().over(newest_first))
    rows = numbered.where(F.col("number") <= COMMITS_KEPT).orderBy(*KEY, F.desc("number")).collect()
    windows: dict[str, dict[TopicPartition, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        places = windows[row["group_id"]][TopicPartition(row["topic"], row["partition"])]
        if row["committed_offset"] is None:
            places.clear()  # The offset was removed: the commits before the removal do not count.
        else:
            places.append((int(row["committed_ms"]), int(row["committed_offset"])))
    return [each for group_id, found in windows.items() for each in _of_group(group_id, found, ends, now_ms)]


def _of_group(
    group_id: str, windows: dict[TopicPartition, list[tuple[int, int]]], ends: Ends, now_ms: int
) -> Iterator[Standing]:
    samples: dict[TopicPartition, list[Sample]] = defaultdict(list)
    for number in range(COMMITS_KEPT):
        due = {partition: each[number] for partition, each in windows.items() if number < len(each)}
        found = ends.at({partition: at_ms for partition, (at_ms, _) in due.items()})
        for partition, end in found.items():
            samples[partition].append(Sample(*due[partition], end))
    present = ends.now(samples)
    for partition in sorted(samples):
        yield standing(group_id, partition, samples[partition], present[partition], now_ms)


def _cells(each: Standing) -> tuple[object, ...]:
    paces = (None, None) if each.pace is None else each.pace
    numbers = (each.committed_offset, each.end_offset, each.lag, each.verdict.value)
    return (each.group_id, *each.partition, *numbers, *paces, each.drain_seconds)


def _storms(told: DataFrame) -> list[tuple[object, ...]]:
    of_group: dict[str, list[Rebalance]] = defaultdict(list)
    for row in told.select("group_id", "started_ms", "still_ms", "cause.kind", "cause.client_id").collect():
        of_group[row["group_id"]].append(
            Rebalance(row["started_ms"], row["still_ms"], row["kind"], row["client_id"] or "")
        )
    return [
        _storm_cells(group_id, each) for group_id, found in of_group.items() for each in find_storms(found)
    ]


def _storm_cells(group_id: str, storm: Storm) -> tuple[object, ...]:
    times = (storm.started_ms, storm.ended_ms, storm.rebalances, storm.still_ms, storm.still_share)
    return (group_id, *times, storm.causes, storm.clients)


def _moves(told: DataFrame, to_ms: int) -> DataFrame:
    """Return how often each partition moved between live members, and how long nobody read it."""
    moved = F.col("move.from_member_id").isNotNull() & F.col("move.to_member_id").isNotNull()
    hours = F.greatest((F.lit(to_ms) - F.min("started_ms")) / F.lit(HOUR_MS), F.lit(1.0))
    return (
        told.select("group_id", "started_ms", F.explode("moves").alias("move"))
        .groupBy("group_id", "move.topic", "move.partition")
        .agg(
            F.count_if(moved).alias("moves"),
            (F.count_if(moved) / hours).alias("moves_per_hour"),
            F.sum("move.still_ms").alias("still_ms"),
        )
        .withColumn(
            "too_often", (F.col("moves") >= MOVES_LEAST) & (F.col("moves_per_hour") >= MOVES_PER_HOUR)
        )
        .orderBy(F.desc("moves"), *KEY)
    )


def _still(told: DataFrame, to_ms: int) -> DataFrame:
    """Return how long each group did not consume, and the share of that since its first rebalance."""
    span_ms = F.greatest(F.lit(to_ms) - F.min("started_ms"), F.lit(1))
    return (
        told.groupBy("group_id")
        .agg(
            F.count("*").alias("rebalances"),
            F.sum("still_ms").alias("still_ms"),
            F.max("still_ms").alias("longest_ms"),
            (F.sum("still_ms") / span_ms).alias("still_share"),
        )
        .orderBy(F.desc("still_ms"))
    )
