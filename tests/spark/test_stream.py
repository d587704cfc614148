"""`format("kohort")` streams topics: what is there, what comes, and partitions that appear."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from kohort.client import Admin, TopicPartition
from tests.interop.waiting import wait_until
from tests.spark.topics import Sent, Topics, numbered, values

STREAM_TIMEOUT_S = 60
Run = Callable[..., list[int]]


@pytest.fixture
def run(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Run:
    """Return a function that streams a topic into a table, and returns how many rows each batch had."""

    def run(topic: str, **options: str) -> list[int]:
        options = {"bootstrap": bootstrap, "topics": topic, "starting": "earliest"} | options
        frame = spark.readStream.format("kohort").options(**options).load()
        writer = frame.writeStream.format("parquet").option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        query = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
        assert query.awaitTermination(STREAM_TIMEOUT_S)
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    return run


def table(spark: SparkSession, tmp_path: Path) -> list[int]:
    return values(spark.read.parquet(str(tmp_path / "table")))


def test_a_stream_takes_what_is_there_and_goes_on_where_it_ended(
    spark: SparkSession, run: Run, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    topics.fill(topic, numbered(1_000, partitions=2))
    assert run(topic, max_rows_per_trigger="400") == [400, 400, 200]
    assert run(topic) == []
    topics.fill(topic, numbered(10, partitions=2, first=1_000))
    assert run(topic) == [10]
    assert table(spark, tmp_path) == list(range(1_010))
    offsets = (tmp_path / "checkpoint" / "offsets" / "3").read_text().splitlines()[-1]
    assert json.loads(offsets) == {topic: {"0": 505, "1": 505}}


def test_a_stream_takes_new_partitions_in_from_their_beginning(
    spark: SparkSession, run: Run, topics: Topics, bootstrap: str, tmp_path: Path
) -> None:
    topic = topics.make(1)
    topics.fill(topic, numbered(10))
    assert run(topic) == [10]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({topic: 3})
    topics.fill(topic, [Sent(b"%d" % number, partition=number % 3) for number in range(10, 40)])
    assert run(topic) == [30]
    assert table(spark, tmp_path) == list(range(40))


def test_a_stream_that_lost_records_says_so_unless_it_is_told_otherwise(
    run: Run, topics: Topics, bootstrap: str
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(10))
    assert run(topic) == [10]
    topics.fill(topic, numbered(10, first=10))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(StreamingQueryException, match="begins at 15 now: offsets from 10 on were deleted"):
        run(topic)
    assert run(topic, fail_on_data_loss="false") == [5]


def test_a_topic_that_was_made_anew_is_an_error(run: Run, topics: Topics, bootstrap: str) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(10))
    assert run(topic) == [10]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics(topic)
    topics.make_named(topic)
    topics.fill(topic, numbered(3))
    with pytest.raises(StreamingQueryException, match="the topic was made anew"):
        run(topic)


def test_a_stream_begins_at_the_end_if_it_is_not_told_where(
    spark: SparkSession, topics: Topics, bootstrap: str, tmp_path: Path
) -> None:
    topic = topics.make(2)
    topics.fill(topic, numbered(50, partitions=2))
    frame = spark.readStream.format("kohort").options(bootstrap=bootstrap, topics=topic).load()
    writer: DataStreamWriter = frame.writeStream.format("memory").queryName("news")
    query = (
        writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds").start()
    )
    try:
        wait_until(lambda: bool(query.recentProgress), "the first batch")
        for first in (50, 150):
            topics.fill(topic, numbered(100, partitions=2, first=first))
            wait_until(lambda most=first + 50: spark.table("news").count() == most, f"{first} and more")
    finally:
        query.stop()
    assert values(spark.table("news")) == list(range(50, 250))
    assert query.lastProgress is not None
    assert query.lastProgress["sources"][0]["latestOffset"] is not None


def test_an_end_is_refused(run: Run, topics: Topics) -> None:
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        run(topics.make(), ending="latest")
