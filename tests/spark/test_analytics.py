"""Groups as a broker's own topics tell of them: real members, real commits, real rebalances."""

from __future__ import annotations

import time
import types
import typing
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType

from kohort.broker.explain import events as of_broker
from kohort.client import Admin, Consumer, OffsetAndMetadata, TopicPartition
from kohort.pipeline.analytics.alert_board import Alert, VerdictAlert
from kohort.pipeline.analytics.alerts import WatchError, watch
from kohort.pipeline.analytics.job import Analysis, analyse
from kohort.pipeline.analytics.page import write_page
from kohort.pipeline.analytics.tables import (
    CONSUMER_OFFSETS,
    EVENTS,
    GROUP_EVENTS,
    commits,
    events,
    groups,
    read_topic,
)
from tests.spark.ingest_driver import until
from tests.spark.ingest_world import only_large
from tests.spark.topics import Topics, numbered

PARTITIONS = 2
REBALANCES = 5


@pytest.fixture(scope="module")
def topic(topics: Topics) -> str:
    name = topics.make(PARTITIONS, retention_ms="-1")
    topics.fill(name, numbered(200, partitions=PARTITIONS))
    return name


@pytest.fixture(scope="module")
def history(bootstrap: str, topic: str) -> str:
    """A broker on which a group was busy, and another fell behind."""
    for _ in range(REBALANCES):
        with Consumer(
            bootstrap_servers=bootstrap, group_id="restless", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(topic)
            until(lambda: bool(consumer.poll(timeout_ms=100)) or bool(consumer.assignment()))
            consumer.commit()
    with Admin(bootstrap_servers=bootstrap) as admin:
        for offset in (10, 20, 30, 40):
            admin.alter_group_offsets("slow", {TopicPartition(topic, 0): OffsetAndMetadata(offset)})
            time.sleep(0.002)  # Two commits of one millisecond are one to whoever looks at times.
    return bootstrap


@pytest.fixture(scope="module")
def found(spark: SparkSession, history: str) -> Analysis:
    return analyse(spark, history, times=10)


def test_commits_are_rows(spark: SparkSession, history: str, topic: str) -> None:
    rows = (
        commits(read_topic(spark, CONSUMER_OFFSETS, bootstrap=history)).where("group_id = 'slow'").collect()
    )
    assert [row.committed_offset for row in rows] == [10, 20, 30, 40]
    assert {(row.topic, row.partition) for row in rows} == {(topic, 0)}


def test_groups_are_rows_with_their_members_decoded(spark: SparkSession, history: str, topic: str) -> None:
    rows = groups(read_topic(spark, CONSUMER_OFFSETS, bootstrap=history)).where("size(members) > 0").collect()
    assert {row.group_id for row in rows} == {"restless"}
    member = rows[-1].members[0]
    assert member.topics == [topic]
    assert [(each.topic, each.partitions) for each in member.assigned] == [(topic, [0, 1])]


def test_events_are_rows(spark: SparkSession, history: str) -> None:
    rows = events(read_topic(spark, GROUP_EVENTS, bootstrap=history)).collect()
    kinds = {row.event for row in rows}
    assert {"MemberJoined", "RebalanceStarted", "JoinCompleted", "RebalanceCompleted", "MemberLeft"} <= kinds
    report = next(row.report for row in rows if row.event == "RebalanceCompleted" and row.report.moves)
    assert report.cause.kind == "a member joined"
    assert len(report.moves) == PARTITIONS


def test_the_current_lag_equals_that_of_the_broker(found: Analysis, topic: str) -> None:
    rows = {(row.group_id, row.partition): row for row in found.standings.collect()}
    assert rows["slow", 0].lag == 60
    assert rows["slow", 0].committed_offset == 40
    assert rows["restless", 0].topic == topic


def test_the_lag_over_time_ends_with_the_current_lag(found: Analysis) -> None:
    now = {(row.group_id, row.partition): row.lag for row in found.standings.collect()}
    last = found.lag.where(f"at_ms = {found.to_ms}").collect()
    assert {(row.group_id, row.partition): row.lag for row in last} == now
    assert found.lag.select("at_ms").distinct().count() <= 10


def test_a_storm_is_found_with_its_causes(found: Analysis) -> None:
    (storm,) = found.storms.collect()
    assert storm.group_id == "restless"
    assert storm.rebalances >= REBALANCES
    assert storm.causes["a member joined"] == REBALANCES


def test_paused_time_is_summed_over_the_rebalances(found: Analysis) -> None:
    (still,) = found.still.collect()
    reports = found.rebalances.collect()
    assert still.rebalances == len(reports)
    assert still.still_ms == sum(row.still_ms for row in reports)


def test_the_report_is_one_complete_page_that_loads_nothing(found: Analysis, tmp_path: Path) -> None:
    path = write_page(found, tmp_path / "report.html")
    text = path.read_text()
    for group in ("restless", "slow"):
        assert f'href="#group-{group}"' in text
        assert f'id="group-{group}"' in text
    assert "<svg" in text
    assert 'name="viewport"' in text, "a phone would show it as wide as a desk's screen"
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def test_tables_are_written_as_parquet(found: Analysis, spark: SparkSession, tmp_path: Path) -> None:
    found.write(str(tmp_path))
    assert spark.read.parquet(str(tmp_path / "standings")).count() == found.standings.count()
    assert {each.name for each in tmp_path.iterdir()} == {name for name, _ in found.tables()}


def test_the_columns_of_events_are_the_fields_that_the_broker_writes(spark: SparkSession) -> None:
    columns = spark.createDataFrame([], EVENTS).schema
    for kind in typing.get_args(of_broker.AnyEvent):
        assert fields(kind) <= set(columns.names), kind
    assert_same(of_broker.RebalanceReport, columns["report"].dataType)


def fields(kind: type[msgspec.Struct]) -> set[str]:
    return {each.name for each in msgspec.structs.fields(kind)}


def assert_same(kind: type[msgspec.Struct], column: DataType) -> None:
    """A struct of the broker's has exactly the column's fields, and so have those in it."""
    assert isinstance(column, StructType)
    assert fields(kind) == set(column.names)
    for each in msgspec.structs.fields(kind):
        inner = column[each.name].dataType
        inner = inner.elementType if isinstance(inner, ArrayType) else inner
        args = typing.get_args(each.type) if isinstance(each.type, types.GenericAlias) else (each.type,)
        if isinstance(args[0], type) and issubclass(args[0], msgspec.Struct):
            assert_same(args[0], inner)


@only_large
def test_alerts_about_a_group_that_stops_are_written_to_a_topic(
    spark: SparkSession, history: str, topics: Topics
) -> None:
    alerts, later = topics.make(), topics.make()
    heard: list[Alert] = []
    with watch(spark, history, alerts, every_s=0.5, hear=heard.append) as job:
        until(lambda: has_stopped(heard, "slow"))
        topics.fill(later, numbered(10))  # A topic of which nobody knew when it began.
        with Admin(bootstrap_servers=history) as admin:
            admin.alter_group_offsets("late", {TopicPartition(later, 0): OffsetAndMetadata(1)})
        until(lambda: has_stopped(heard, "late"))
        summary = job.stop()
    assert job.query.exception() is None
    assert summary.verdicts["STOP"] >= 2
    assert summary.alerts == len(heard)
    with Consumer(bootstrap_servers=history, auto_offset_reset="earliest") as consumer:
        consumer.assign(TopicPartition(alerts, 0))
        written: list[Alert] = []
        while len(written) < len(heard):
            written += [
                msgspec.json.decode(each.value or b"", type=Alert) for each in consumer.poll(timeout_ms=200)
            ]
    assert written == heard


def has_stopped(heard: list[Alert], group_id: str) -> bool:
    return any(
        isinstance(each, VerdictAlert) and (each.group_id, each.verdict) == (group_id, "STOP")
        for each in heard
    )


def test_a_watch_without_a_target_topic_is_refused(spark: SparkSession, history: str) -> None:
    with pytest.raises(WatchError, match="there is no topic 'nosuch'"):
        watch(spark, history, "nosuch")
