"""Ranges written once more beside a live group, and data folders that were damaged on purpose."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kohort.client import Admin, OffsetAndMetadata, TopicPartition
from kohort.pipeline.audit import AuditError, audit
from kohort.pipeline.errors import OptionError
from kohort.pipeline.replaying import replay, write_to_topic
from kohort.pipeline.writing import Written
from kohort.protocol.records import build_batch
from tests.interop.broker_process import BrokerProcess
from tests.spark.topics import Sent, Topics, numbered, values

GROUP = "live"


def commit(bootstrap: str, topic: str, offset: int) -> int:
    """Commit for the group, and return a time behind which it had this offset."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(GROUP, {TopicPartition(topic, 0): OffsetAndMetadata(offset)})
    time.sleep(0.005)  # So that the next commit is of another millisecond.
    return time.time_ns() // 1_000_000


def committed(bootstrap: str, topic: str) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return admin.list_group_offsets(GROUP)[TopicPartition(topic, 0)].offset


def test_records_read_by_a_group_between_two_times_are_replayed_and_the_group_stays(
    spark: SparkSession, bootstrap: str, topics: Topics
) -> None:
    topic = topics.make(retention_ms="-1")
    topics.fill(topic, numbered(100))
    at = {offset: commit(bootstrap, topic, offset) for offset in (20, 50, 90)}
    again = replay(
        spark, bootstrap, [topic], starting=f"group:{GROUP}@{at[20]}", ending=f"group:{GROUP}@{at[50]}"
    )
    assert values(again) == list(range(20, 50))
    until_now = replay(spark, bootstrap, [topic], starting=f"group:{GROUP}@{at[50]}", ending=f"group:{GROUP}")
    assert values(until_now) == list(range(50, 90))
    assert committed(bootstrap, topic) == 90
    with pytest.raises(OptionError, match="had committed nothing"):
        replay(spark, bootstrap, [topic], starting=f"group:{GROUP}@1000")


def test_a_range_by_time_is_written_once_into_another_topic_for_any_number_of_runs(
    spark: SparkSession, bootstrap: str, topics: Topics
) -> None:
    topic, other = (topics.make(retention_ms="-1") for _ in range(2))
    topics.fill(topic, [Sent(b"%d" % number, timestamp_ms=1_000_000 + number) for number in range(60)])
    again = replay(spark, bootstrap, [topic], starting="timestamp:1000010", ending="timestamp:1000030")
    for rows, repeated in ((20, 0), (0, 20)):
        assert write_to_topic(again, bootstrap, other, name="the tens") == Written(rows, repeated)
    assert values(replay(spark, bootstrap, [other])) == list(range(10, 30))


@pytest.fixture
def folder(broker: BrokerProcess) -> Path:
    return broker.data


def test_a_sound_folder_has_no_problem_and_the_sums_are_right(
    spark: SparkSession, topics: Topics, folder: Path
) -> None:
    topic = topics.make(2, retention_ms="-1")
    topics.fill(topic, numbered(500, partitions=2))
    found = audit(spark, str(folder), topics=[topic], deep=True)
    assert (found.segments, found.records, found.problem_count) == (2, 500, 0)
    rows = found.partitions.collect()
    assert [(row.partition, row.first_offset, row.next_offset) for row in rows] == [(0, 0, 250), (1, 0, 250)]
    everything = audit(spark, str(folder), deep=True)
    assert everything.problem_count == 0, everything.problems.collect()
    assert everything.segments > 2


def test_damage_of_each_kind_is_reported_with_its_location(
    spark: SparkSession, topics: Topics, folder: Path, tmp_path: Path
) -> None:
    topic = topics.make(1, segment_bytes="1048576", retention_ms="-1")
    for _ in range(5):
        topics.fill(topic, [Sent(b"x" * 300_000) for _ in range(3)])
    copied = tmp_path / f"{topic}-0"
    copied.mkdir()
    logs = sorted((folder / copied.name).glob("*.log"))
    assert len(logs) >= 4
    for number, log in enumerate(logs):
        content = bytearray(log.read_bytes())
        if number == 1:
            content[100] ^= 1  # Within the first batch.
        if number != 2:  # One is lost.
            (copied / log.name).write_bytes(content)
    repeated = logs[0].read_bytes() + logs[0].read_bytes()
    (copied / logs[0].name).write_bytes(repeated)
    found = audit(spark, str(tmp_path))
    kinds = {(row.kind, Path(row.path).name) for row in found.problems.collect()}
    assert ("crc", logs[1].name) in kinds
    assert ("gap", logs[3].name) in kinds
    assert ("order", logs[0].name) in kinds
    assert {row.problems for row in found.partitions.collect()} == {found.problem_count}


def test_a_producers_batch_that_lies_there_twice_is_a_duplicate(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "air-0"
    folder.mkdir()
    rows = [(1_000, None, b"x", ())]
    for offset in (0, 1):
        batch = build_batch(rows, base_offset=offset, producer_id=7, producer_epoch=0, base_sequence=3)
        (folder / f"{offset:020d}.log").write_bytes(batch)
    found = audit(spark, str(tmp_path))
    (problem,) = found.problems.collect()
    assert (problem.kind, problem.offset) == ("duplicate", 1)


def test_a_folder_without_segments_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="holds no segments"):
        audit(spark, str(tmp_path))
