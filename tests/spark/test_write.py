"""`format("kohort")` writes topics: each row once, whatever is tried again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from kohort.client.partitioner import partition_for_key
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.spark.topics import Topics, numbered, values

Batches = Iterator[pa.RecordBatch]
ROWS, BATCHES = 40_000, 80
STREAM_TIMEOUT_S = 60


def read(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    return spark.read.format("kohort").options(bootstrap=bootstrap, topics=topic, **options).load()


def write(frame: DataFrame, bootstrap: str, **options: str) -> None:
    frame.write.format("kohort").options(bootstrap=bootstrap, **options).mode("append").save()


def numbers(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    """Return rows whose keys and values are their numbers, in so many tasks."""
    number = F.col("id").cast("string")
    return spark.range(0, count, 1, tasks).select(number.alias("key"), number.alias("value"))


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_rows_go_where_every_client_would_send_them(
    spark: SparkSession, bootstrap: str, topics: Topics, compression: str
) -> None:
    topic = topics.make(3)
    write(numbers(spark, 1_000), bootstrap, topic=topic, compression=compression, batch_bytes="4096")
    rows = read(spark, bootstrap, topic).select("key", "partition", "value").collect()
    assert sorted(int(bytes(row.value)) for row in rows) == list(range(1_000))
    assert all(row.partition == partition_for_key(bytes(row.key), 3) for row in rows)


def test_a_row_names_its_topic_partition_time_and_headers(
    spark: SparkSession, bootstrap: str, topics: Topics
) -> None:
    first, second = topics.make(2), topics.make(2)
    schema = (
        "topic string, partition int, key binary, value string, timestamp timestamp,"
        " headers array<struct<key string, value binary>>"
    )
    moment = datetime(2024, 5, 6, 7, 8, 9, 10_000)
    rows = [
        (first, 1, b"k", "v", moment, [("a", b"1"), ("b", None)]),
        (second, None, None, None, None, None),
    ]
    write(spark.createDataFrame(rows, schema), bootstrap)
    [row] = read(spark, bootstrap, first, include_headers="true").collect()
    assert (row.partition, row.key, row.value, row.timestamp) == (1, b"k", b"v", moment)
    assert [tuple(each) for each in row.headers] == [("a", b"1"), ("b", None)]
    [row] = read(spark, bootstrap, second).collect()
    assert (row.key, row.value) == (None, None)
    assert row.timestamp is not None, "a row without a time gets that of its writing"


def in_the_middle(
    bootstrap: str, topic: str, marker: Path, act: Callable[[], None]
) -> Callable[[Batches], Batches]:
    """Return a function for `mapInArrow` that acts, once, when the topic has some of its rows but not all."""

    def pass_on(batches: Batches) -> Batches:
        from kohort.client import TopicPartition
        from kohort.pipeline.brokers import Brokers
        from kohort.pipeline.servers import Servers

        for number, batch in enumerate(batches):
            if number == BATCHES // 2 and not marker.exists():
                asked = {TopicPartition(topic, 0): -1, TopicPartition(topic, 1): -1}
                with Brokers(Servers(bootstrap), 10_000) as brokers:
                    while not any(brokers.list_offsets(asked, read_committed=True).values()):
                        time.sleep(0.02)
                marker.touch()
                act()
            yield batch

    return pass_on


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Let Spark hand rows on in many batches."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS // BATCHES))
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.usefixtures("small_batches")
def test_a_batch_that_failed_is_written_again_and_nothing_twice(
    spark: SparkSession, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)

    def fail() -> None:
        raise RuntimeError("the first try fails")

    def save(batch: str, batch_bytes: str) -> None:
        write(frame, bootstrap, topic=topic, writer="job", batch=batch, batch_bytes=batch_bytes)

    middle = in_the_middle(bootstrap, topic, tmp_path / "failed", fail)
    frame = numbers(spark, ROWS, tasks=1).mapInArrow(middle, "key string, value string")
    with pytest.raises(PySparkException, match="the first try fails"):
        save("0", "1024")
    assert 0 < read(spark, bootstrap, topic).count() < ROWS
    save("0", "999")
    assert values(read(spark, bootstrap, topic)) == list(range(ROWS))
    save("0", "2000")
    assert read(spark, bootstrap, topic).count() == ROWS, "it was there already"
    save("1", "99999")
    assert read(spark, bootstrap, topic).count() == 2 * ROWS, "another batch is another matter"
    with pytest.raises(PySparkException, match="a later batch of this query is in"):
        save("0", "1024")


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(STREAM_TIMEOUT_S)


def test_a_stream_whose_checkpoint_lost_its_commit_writes_nothing_twice(
    spark: SparkSession, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make(2), topics.make(3)
    topics.fill(source, numbered(900, partitions=2))

    def run() -> None:
        options = {"bootstrap": bootstrap, "topics": source, "starting": "earliest"}
        frame = spark.readStream.format("kohort").options(**options, max_rows_per_trigger="300").load()
        writer = frame.select("key", "value").writeStream.format("kohort").trigger(availableNow=True)
        finish(writer.options(bootstrap=bootstrap, topic=target, checkpointLocation=str(tmp_path)).start())

    run()
    assert values(read(spark, bootstrap, target)) == list(range(900))
    for each in (tmp_path / "commits").glob(
        "*2*"
    ):  # As a kill between the sink and Spark's commit leaves it.
        each.unlink()
    topics.fill(source, numbered(100, partitions=2, first=900))
    run()
    assert values(read(spark, bootstrap, target)) == list(range(1_000))


@pytest.mark.usefixtures("small_batches")
def test_a_killed_broker_loses_and_duplicates_no_row(
    spark: SparkSession, topics: Topics, broker: BrokerProcess, tmp_path: Path
) -> None:
    topic, killed, restarted, pid = topics.make(2), tmp_path / "killed", tmp_path / "restarted", broker.pid

    def kill() -> None:
        os.kill(pid, signal.SIGKILL)
        while not restarted.exists():
            time.sleep(0.02)

    def restart() -> None:
        wait_until(killed.exists, "the kill")
        broker.restart(signal.SIGKILL)
        restarted.touch()

    middle = in_the_middle(broker.bootstrap, topic, killed, kill)
    frame = numbers(spark, ROWS, tasks=1).mapInArrow(middle, "key string, value string")
    with ThreadPoolExecutor(1) as pool:
        restarting = pool.submit(restart)
        write(frame, broker.bootstrap, topic=topic, batch_bytes="2048")
        restarting.result()
    assert values(read(spark, broker.bootstrap, topic)) == list(range(ROWS))


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("1 as value", {"topic": "t"}, "a row's value int can't be written; key binary, value binary"),
        ("'a' as key", {"topic": "t"}, "rows need a column 'value'"),
        ("'a' as value", {}, "give the option 'topic', or a column 'topic'"),
        ("'a' as value", {"topic": "t", "batch": "3"}, "batch needs a writer"),
        ("'a' as value", {"topic": "nosuch"}, "topic 'nosuch' does not exist"),
        ("'a' as value, 9 as partition", {"topic": "there"}, "'there' has 1 partitions, no 9"),
    ],
)
def test_an_unwritable_row_is_reported_in_one_line(
    spark: SparkSession, topics: Topics, columns: str, options: dict[str, str], complaint: str
) -> None:
    if options.get("topic") == "there":
        topics.make_named("there")
    with pytest.raises(PySparkException, match=complaint):
        write(spark.sql(f"select {columns}"), topics.bootstrap, **options)


def test_a_stream_counts_its_own_batches(
    spark: SparkSession, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(1))
    frame = (
        spark.readStream.format("kohort")
        .options(bootstrap=bootstrap, topics=topic, starting="earliest")
        .load()
    )
    sink = {"bootstrap": bootstrap, "topic": topic, "writer": "w", "batch": "1"}
    writer = frame.select("value").writeStream.format("kohort").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="leave out 'batch'"):
        finish(writer.options(**sink, checkpointLocation=str(tmp_path)).start())
