"""`read_kafka` in SQL: a topic as a table, and as a stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kohort.pipeline import register
from kohort.pipeline.jvm.loading import NoJarError, find_jar
from tests.spark.topics import Topics, numbered, values

STREAM_TIMEOUT_S = 300


@pytest.fixture(autouse=True)
def jar(spark: SparkSession) -> None:
    """Skip with a word where there is no jar: the function is the JVM's."""
    try:
        find_jar(spark.version)
    except NoJarError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def topic(topics: Topics) -> str:
    found = topics.make(2)
    topics.fill(found, numbered(100, partitions=2))
    return found


def test_sql_reads_a_topic(spark: SparkSession, bootstrap: str, topic: str) -> None:
    frame = spark.sql(f"SELECT * FROM read_kafka(bootstrapServers => '{bootstrap}', subscribe => '{topic}')")
    assert not frame.isStreaming
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert values(frame) == list(range(100))


def test_names_with_dots_numbers_and_expressions_are_options(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    begin = f'{{"{topic}": {{"0": 10, "1": -1}}}}'
    frame = spark.sql(
        f"SELECT value, headers FROM read_kafka(`kafka.bootstrap.servers` => '{bootstrap}',"
        f" subscribe => concat('{topic}', ''), startingOffsets => '{begin}', minPartitions => 2 + 2,"
        " includeHeaders => true) WHERE offset < 13"
    )
    assert values(frame) == [20, 22, 24]
    assert frame.rdd.getNumPartitions() >= 4


def test_a_function_joins_with_a_table_and_serves_a_view(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW orders AS SELECT partition, offset FROM"
        f" read_kafka(bootstrapServers => '{bootstrap}', subscribe => '{topic}')"
    )
    frame = spark.sql("SELECT count(*) FROM orders JOIN range(10) AS wanted ON offset = wanted.id")
    assert frame.first() == (20,)


@pytest.mark.parametrize(
    "call", ["STREAM read_kafka({})", "stream(read_kafka({}))", "STREAM /* all */ read_kafka({})"]
)
def test_sql_streams_a_topic(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, call: str
) -> None:
    options = f"bootstrapServers => '{bootstrap}', subscribe => '{topic}', startingOffsets => 'earliest'"
    frame = spark.sql(f"SELECT value, offset FROM {call.format(options)} WHERE partition = 1")
    assert frame.isStreaming
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
    assert query.awaitTermination(STREAM_TIMEOUT_S)
    assert values(spark.read.parquet(str(tmp_path / "table"))) == list(range(1, 100, 2))


@pytest.mark.parametrize(
    "arguments, says",
    [
        ("'orders'", "takes options by name"),
        ("subscribe => uuid()", "subscribe is not a constant"),
        ("subscribe => null", "subscribe is not a constant"),
        ("subscribe => 'a', subscribe => 'b'", "given twice"),
        ("bootstrapServers => '127.0.0.1:1'", "give either topics"),
        ("bootstrapServers => '127.0.0.1:1', subscribe => 'a', startingOfsets => 'latest'", "unknown option"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(spark: SparkSession, arguments: str, says: str) -> None:
    with pytest.raises(PySparkException, match=says):
        spark.sql(f"SELECT * FROM read_kafka({arguments})").collect()


def test_another_session_of_the_jvm_has_the_function(spark: SparkSession, bootstrap: str, topic: str) -> None:
    session = spark.newSession()
    register(session)
    frame = session.sql(
        f"SELECT count(*) FROM read_kafka(bootstrapServers => '{bootstrap}', subscribe => '{topic}')"
    )
    assert frame.first() == (100,)
    read = session.read.format("kohort").options(bootstrap=bootstrap, topics=topic)
    assert read.load().count() == 100
