"""Topics to tables in one process: what is in them, where the group is, and what is refused."""

from __future__ import annotations

import json
import shutil
import socket
from datetime import UTC
from pathlib import Path

import pytest
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import SparkSession

from kohort.client import Consumer, OffsetAndMetadata, Producer, ResourceType, TopicPartition
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.ingest import (
    CheckpointLostError,
    GroupAheadError,
    GroupBusyError,
    ManifestError,
    group_offsets,
    ingest,
    read_manifest,
    reconcile,
)
from kohort.pipeline.ingest.comparison import Step
from kohort.pipeline.ingest.folder import HadoopFolder
from kohort.pipeline.ingest.formats import PARQUET
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import Tools
from tests.spark.ingest_driver import until
from tests.spark.ingest_world import EACH_FORMAT, PARTITIONS, World, format_of, only_large, own_world

T0 = 1_700_000_000_000
KINDS: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
    (b"k", b"v", (("a", b"1"), ("a", None), ("b", b""))),
    (None, b"", ()),
    (b"", None, (("\u00e4" * 200, b"x" * 300),)),
    (b"large", bytes(range(256)) * 10_000, ()),
]
"""Key, value and headers of records that have little in common."""
SOURCES = ("kohort", pytest.param("kafka", marks=only_large))


@pytest.fixture(params=EACH_FORMAT)
def world(
    request: pytest.FixtureRequest, broker: BrokerProcess, tools: Tools | None, tmp_path: Path
) -> World:
    """A topic of this test's own."""
    return own_world(broker, tmp_path, tools, format_of(request))


@pytest.mark.parametrize("source", SOURCES)
def test_after_available_now_every_record_is_there_once_and_the_group_has_no_lag(
    world: World, spark: SparkSession, source: str, request: pytest.FixtureRequest
) -> None:
    if source == "kafka":
        request.getfixturevalue("connector")
    world.produce(500)
    summary = world.ingest(world.stream(spark, source))
    assert (summary.rows, summary.rows_in_table, summary.group.error) == (500, 500, None)
    assert summary.batch_id == summary.group.batch_id >= 2
    world.assert_nothing_is_lost_or_doubled(spark)
    world.assert_group_is_at_the_end()
    world.produce(100)
    assert sum(row["lag"] for row in world.described()) == 100
    assert world.tools is None or sum(world.lag_by_kafkas_tool()) == 100
    assert world.ingest(world.stream(spark, source)).rows == 100
    world.assert_nothing_is_lost_or_doubled(spark)
    world.assert_group_is_at_the_end()
    assert world.lag_by_kafkas_tool() == [0] * PARTITIONS


@only_large
def test_records_of_every_kind_arrive_as_they_are(world: World, spark: SparkSession) -> None:
    """Nulls, empty ones, headers, large values, times that go back; and nothing that was aborted."""
    limits = {"max.message.bytes": "4000000", "retention.ms": "-1"}
    with world.admin() as admin:
        admin.alter_configs(ResourceType.TOPIC, world.topic, values=limits)
    with Producer(
        bootstrap_servers=world.broker.bootstrap, max_request_size=4_000_000, transactional_id=world.topic
    ) as producer:
        producer.init_transactions()
        for is_kept in (False, True, True, False):
            producer.begin_transaction()
            for number, (key, value, headers) in enumerate(KINDS):
                at_ms = T0 - 60_000 * number
                producer.send(world.topic, value, key=key, partition=0, timestamp_ms=at_ms, headers=headers)
            if is_kept:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    for _ in range(2):  # The second one finds nothing but markers behind what it has.
        world.ingest(world.stream(spark, include_headers="true"))
        world.assert_group_is_at_the_end()
    rows = world.frame(spark).orderBy("offset").collect()
    found = [(row.key, row.value, [tuple(each) for each in row.headers or ()]) for row in rows]
    assert found == [(key, value, list(headers)) for key, value, headers in [*KINDS, *KINDS]]
    times = [row.timestamp.replace(tzinfo=UTC).timestamp() * 1000 for row in rows]
    assert times == [T0 - 60_000 * number for number in range(len(KINDS))] * 2


@only_large
def test_a_continuous_ingest_commits_the_group_after_each_batch(world: World, spark: SparkSession) -> None:
    world.produce(100)
    where = (world.table, world.checkpoint, world.group, world.broker.bootstrap)
    with ingest(world.stream(spark), *where, every="200 milliseconds", format=world.format) as job:
        until(lambda: world.committed() == world.ends())
        world.produce(100)
        until(lambda: world.committed() == world.ends())
        assert job.rows == 200
        summary = job.stop()
    assert summary.group.is_true
    world.assert_nothing_is_lost_or_doubled(spark)


def test_offsets_below_the_log_start_are_an_error_unless_opted_out(world: World, spark: SparkSession) -> None:
    world.produce(100)
    world.ingest(world.stream(spark))
    world.produce(100)
    with world.admin() as admin:
        admin.delete_records({TopicPartition(world.topic, 0): 80})
    with pytest.raises(StreamingQueryException):
        world.ingest(world.stream(spark))
    world.assert_group_is_nowhere_ahead()
    world.ingest(world.stream(spark, fail_on_data_loss="false"), fail_on_data_loss=False)
    lost = set(range(100, 160, 2))  # Partition 0 has the even numbers: its offset 50 is number 100.
    assert world.values(spark) == sorted(set(range(200)) - lost)
    world.assert_group_is_at_the_end()


def test_a_lost_checkpoint_is_an_error_and_a_new_one_resumes_at_the_table_end(
    world: World, spark: SparkSession
) -> None:
    world.produce(300)
    world.ingest(world.stream(spark))
    shutil.rmtree(world.checkpoint)
    world.produce(100)
    with pytest.raises(CheckpointLostError, match="--resume"):
        world.ingest(world.stream(spark))
    summary = world.ingest(world.stream(spark), resume=True)
    assert summary.rows == 100
    world.assert_nothing_is_lost_or_doubled(spark)
    world.assert_group_is_at_the_end()
    world.produce(10)
    assert world.ingest(world.stream(spark)).rows == 10
    world.assert_nothing_is_lost_or_doubled(spark)


def test_a_recreated_topic_is_detected_by_its_id(world: World, spark: SparkSession) -> None:
    """It has as many records again: by offsets alone there is nothing to see, and no batch would come."""
    world.produce(100)
    assert world.ingest(world.stream(spark)).rows == 100
    with world.admin() as admin:
        admin.delete_topics(world.topic)
    world.make_topic()
    world.written = 0
    world.produce(100)
    with pytest.raises(DataLossError, match="made anew"):
        world.ingest(world.stream(spark))
    with pytest.raises(DataLossError, match="made anew"):
        world.ingest(world.stream(spark), world.checkpoint + "2", resume=True)
    opted_out = {"resume": True, "fail_on_data_loss": False}
    summary = world.ingest(world.stream(spark), world.checkpoint + "2", **opted_out)
    assert (summary.rows, summary.rows_in_table) == (100, 200), "none of it counts as in the table already"


@only_large
def test_a_new_checkpoint_that_starts_after_the_table_end_is_an_error(
    world: World, spark: SparkSession
) -> None:
    world.produce(100)
    world.ingest(world.stream(spark))
    world.produce(100)
    later = json.dumps({world.topic: {"0": 60, "1": 50}})
    stream = world.stream(spark, starting=later)
    with pytest.raises(StreamingQueryException, match="records between would be missing"):
        world.ingest(stream, world.checkpoint + "2", resume=True)


@only_large
def test_a_table_that_is_lost_is_an_error(world: World, spark: SparkSession) -> None:
    world.produce(100)
    world.ingest(world.stream(spark))
    world.lose_table()
    world.produce(100)
    with pytest.raises(StreamingQueryException, match="none of the batches before it"):
        world.ingest(world.stream(spark))
    if world.format == PARQUET:
        with pytest.raises(ManifestError, match="nothing has been ingested"):
            read_manifest(spark, world.table)


def test_a_group_with_live_members_is_refused(world: World, spark: SparkSession) -> None:
    world.produce(10)
    with Consumer(bootstrap_servers=world.broker.bootstrap, group_id=world.group) as consumer:
        consumer.subscribe(world.topic)
        until(lambda: bool(consumer.poll(timeout_ms=100)) or bool(consumer.assignment()))
        with pytest.raises(GroupBusyError, match="1 live member"):
            world.ingest(world.stream(spark))
    assert not Path(world.table).exists()


def test_a_group_moved_by_others_is_refused_or_moved_back(world: World, spark: SparkSession) -> None:
    world.produce(100)
    world.ingest(world.stream(spark))
    world.produce(100)
    with world.admin() as admin:
        admin.alter_group_offsets(world.group, {TopicPartition(world.topic, 0): OffsetAndMetadata(70)})
    with pytest.raises(GroupAheadError, match="at 70, the checkpoint at 50"):
        world.ingest(world.stream(spark))
    found = reconcile(world.checkpoint, world.group, world.broker.bootstrap)
    assert [each.step for each in found.rows] == [Step.BACK, Step.STAY]
    with pytest.raises(GroupAheadError):
        reconcile(world.checkpoint, world.group, world.broker.bootstrap, execute=True)
    reconcile(world.checkpoint, world.group, world.broker.bootstrap, execute=True, backwards=True)
    assert set(world.committed().values()) == {50}
    world.ingest(world.stream(spark))
    world.assert_nothing_is_lost_or_doubled(spark)
    world.assert_group_is_at_the_end()


def test_the_data_does_not_wait_for_a_missing_coordinator(
    world: World, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_offsets, "ATTEMPT_MS", 500)
    world.produce(300)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # Bound and not listening: every connection is refused.
        away = f"127.0.0.1:{nobody.getsockname()[1]}"
        where = (world.table, world.checkpoint, world.group, away)
        job = ingest(world.stream(spark), *where, format=world.format)
        job.wait()
        summary = job.stop(group_within_s=0)
    assert summary.rows == 300
    assert summary.group.error is not None
    world.assert_nothing_is_lost_or_doubled(spark)
    assert world.committed() == {}
    assert world.ingest(world.stream(spark)).rows == 0  # The next start tells the group what it has missed.
    world.assert_group_is_at_the_end()


@only_large
def test_leftovers_of_a_killed_batch_are_not_in_the_table_and_are_deleted(
    world: World, spark: SparkSession
) -> None:
    if world.format != PARQUET:
        pytest.skip("Delta leaves that to VACUUM, and Iceberg to remove_orphan_files")
    world.produce(100)
    world.ingest(world.stream(spark))
    leftover = Path(world.table) / "data" / "batch-leftover"
    shutil.copytree(next((Path(world.table) / "data").iterdir()), leftover)
    world.assert_nothing_is_lost_or_doubled(spark)
    world.ingest(world.stream(spark))
    assert leftover.exists()  # Nothing was written: another driver might still be at work.
    world.produce(10)
    world.ingest(world.stream(spark))
    assert not leftover.exists()
    world.assert_nothing_is_lost_or_doubled(spark)


def test_a_hadoop_folder_behaves_like_a_local_one(spark: SparkSession, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, f"file://{tmp_path}/deep").child("er")
    assert folder.names() == set()
    folder.create("a", "grün")
    assert folder.read("a") == "grün"
    with pytest.raises(FileExistsError):
        folder.create("a", "blue")
    folder.child("below").create("b", "")
    assert folder.exists("below")
    folder.delete("below")
    assert folder.names() == {"a"}
    with pytest.raises(FileNotFoundError):
        folder.read("b")
