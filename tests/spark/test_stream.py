"""`format("kohort")` streams topics: what is there, what comes, and partitions that appear."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from kohort.client import Admin, KohortError, TopicPartition
from kohort.pipeline.jvm.loading import NoJarError, find_jar
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


def test_a_stream_reads_existing_records_and_continues(
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
    written = json.loads(offsets)
    assert list(written.pop("@topic_ids")) == [topic]
    assert written == {topic: {"0": 505, "1": 505}}


def test_a_stream_reads_new_partitions_from_their_start(
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


def test_a_stream_that_lost_records_fails_unless_allowed(run: Run, topics: Topics, bootstrap: str) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(10))
    assert run(topic) == [10]
    topics.fill(topic, numbered(10, first=10))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 15})
    with pytest.raises(StreamingQueryException, match="begins at 15 now: offsets from 10 on were deleted"):
        run(topic)
    assert run(topic, fail_on_data_loss="false") == [5]


def test_a_recreated_topic_is_an_error(run: Run, topics: Topics, bootstrap: str) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(10))
    assert run(topic) == [10]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics(topic)
    topics.make_named(topic)
    topics.fill(topic, numbered(3))
    with pytest.raises(StreamingQueryException, match="was made anew"):
        run(topic)


def test_a_stream_starts_at_the_end_by_default(
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


def test_a_stream_starts_once_for_a_fast_growing_topic(
    spark: SparkSession, topics: Topics, bootstrap: str, tmp_path: Path
) -> None:
    """Spark asks twice where a query begins. The second answer lay behind the end of the first batch."""
    topic = topics.make(2)
    stopped = threading.Event()

    def grow() -> None:
        first = 0
        while not stopped.is_set():
            topics.fill(topic, numbered(20, partitions=2, first=first))
            first += 20

    producer = threading.Thread(target=grow)
    producer.start()
    try:
        for number in range(3):
            frame = spark.readStream.format("kohort").options(bootstrap=bootstrap, topics=topic).load()
            name = f"growing_{number}"
            writer: DataStreamWriter = frame.writeStream.format("memory").queryName(name)
            query = writer.option("checkpointLocation", str(tmp_path / name)).start()
            try:
                wait_until(lambda name=name: spark.table(name).count() >= 100, "records of the stream")
                assert query.exception() is None
            finally:
                query.stop()
            seen = values(spark.table(name))
            assert len(seen) == len(set(seen))
    finally:
        stopped.set()
        producer.join()


def test_a_stream_that_ends_before_its_first_commit_restarts_at_its_start(
    spark: SparkSession, topics: Topics, bootstrap: str, tmp_path: Path
) -> None:
    topic = topics.make(1)
    topics.fill(topic, numbered(10))
    fails = [True]
    seen: list[int] = []

    def sink(batch: DataFrame, _number: int) -> None:
        if fails[0]:
            raise RuntimeError("not yet")
        seen.extend(values(batch))

    def start() -> StreamingQuery:
        frame = spark.readStream.format("kohort").options(bootstrap=bootstrap, topics=topic).load()
        writer: DataStreamWriter = frame.writeStream.foreachBatch(sink)
        writer = writer.trigger(processingTime="100 milliseconds")
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    query = start()
    wait_until(lambda: not query.isActive, "the sink's error")
    topics.fill(topic, numbered(20, first=10))
    fails[0] = False
    query = start()
    try:
        wait_until(lambda: len(seen) >= 20, "the records behind the place where the stream began")
    finally:
        query.stop()
    assert sorted(seen) == list(range(10, 30))


def make_anew(topics: Topics, bootstrap: str, topic: str) -> None:
    """Delete a topic of ten records, and make one of that name with thirty."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics(topic)
    topics.make_named(topic)
    topics.fill(topic, numbered(30, first=100))


def test_a_recreated_topic_with_more_records_is_an_error(run: Run, topics: Topics, bootstrap: str) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(10))
    assert run(topic) == [10]
    make_anew(topics, bootstrap, topic)
    with pytest.raises(StreamingQueryException, match="was made anew"):
        run(topic)


def test_a_recreated_topic_is_read_from_its_start_if_losses_are_allowed(
    spark: SparkSession, run: Run, topics: Topics, bootstrap: str, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(10))
    assert run(topic) == [10]
    make_anew(topics, bootstrap, topic)
    assert run(topic, fail_on_data_loss="false") == [30]
    assert run(topic, fail_on_data_loss="false") == []
    assert table(spark, tmp_path) == [*range(10), *range(100, 130)]


def test_a_topic_recreated_during_a_run_is_read_completely(
    spark: SparkSession, topics: Topics, bootstrap: str, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(100))
    options = {"bootstrap": bootstrap, "topics": topic, "starting": "earliest"}
    options |= {"fail_on_data_loss": "false", "max_rows_per_trigger": "40"}
    found: list[int] = []

    def write(frame: DataFrame, batch_id: int) -> None:
        found.extend(values(frame))
        if batch_id == 0:
            make_anew(topics, bootstrap, topic)

    stream = spark.readStream.format("kohort").options(**options).load().writeStream.foreachBatch(write)
    for _ in range(2):
        query = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(STREAM_TIMEOUT_S)
    assert found == [*range(40), *range(100, 130)]
    topics.fill(topic, numbered(30, first=130))
    query = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(STREAM_TIMEOUT_S)
    assert found == [*range(40), *range(100, 160)]


@pytest.mark.parametrize(
    "choice",
    [
        ({"topics": "{topic} , other"}, "Subscribe[{topic}, other]"),
        ({"pattern": "{topic}|oth.r"}, "SubscribePattern[{topic}|oth.r]"),
        ({"subscribe": "{topic},other"}, "Subscribe[{topic}, other]"),
        ({"subscribePattern": "{topic}|oth.r"}, "SubscribePattern[{topic}|oth.r]"),
        ({"assign": '{{"{topic}":[0,1],"other":[0]}}'}, "Assign[{topic}-0, {topic}-1, other-0]"),
    ],
)
def test_the_progress_has_the_topics_and_the_lag(
    spark: SparkSession, topics: Topics, bootstrap: str, tmp_path: Path, choice: tuple[dict[str, str], str]
) -> None:
    """As that of Spark's Kafka source does."""
    chosen, names = choice
    try:
        find_jar(spark.version)
    except NoJarError:
        pytest.skip("without a jar Python alone is the source, which Spark does not ask")
    topic = topics.make(2)
    with suppress(KohortError):
        topics.make_named("other")
    topics.fill(topic, [*numbered(30), *numbered(10, partitions=2)])
    given = {name: value.format(topic=topic) for name, value in chosen.items()}
    options = {"bootstrap": bootstrap, "starting": "earliest", "max_rows_per_trigger": "20", **given}
    writer = spark.readStream.format("kohort").options(**options).load().writeStream.format("noop")
    query = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path)).start()
    assert query.awaitTermination(STREAM_TIMEOUT_S)
    told = [each["sources"][0] for each in query.recentProgress if each["numInputRows"]]
    assert {each["description"] for each in told} == {f"kohort[{names.format(topic=topic)}]"}
    reached = json.loads(told[0]["endOffset"])[topic]
    behind = [35 - reached["0"], 5 - reached["1"], 0]  # `other` is empty.
    assert told[0]["metrics"] == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / 3),
    }
    assert set(told[-1]["metrics"].values()) == {"0", "0.0"}


def test_an_end_is_refused(run: Run, topics: Topics) -> None:
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        run(topics.make(), ending="latest")
