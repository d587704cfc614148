"""`format("kohort")` reads topics: every column, every place to begin and to end, and what is lost."""

from __future__ import annotations

import json
from datetime import UTC

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kohort.client import Admin, OffsetAndMetadata, TopicPartition
from tests.spark.topics import Sent, Topics, numbered, places, values

T0 = 1_700_000_000_000
NOWHERE = "127.0.0.1:9"


@pytest.fixture(scope="module")
def two_partitions(topics: Topics) -> str:
    """A topic with 0 to 99 in two partitions, a second between records."""
    topic = topics.make(2)
    topics.fill(
        topic,
        [each._replace(timestamp_ms=T0 + 1000 * n) for n, each in enumerate(numbered(100, partitions=2))],
    )
    return topic


def load(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    return spark.read.format("kohort").options(bootstrap=bootstrap, topics=topic, **options).load()


def test_every_column_equals_the_sent_record(spark: SparkSession, bootstrap: str, topics: Topics) -> None:
    topic = topics.make(2)
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    topics.fill(
        topic, [Sent(b"v", b"k", 1, T0 + 7, headers), Sent(None, b"gone", 1, T0), Sent(b"", None, 0, T0 + 9)]
    )
    frame = load(spark, bootstrap, topic, include_headers="true").orderBy("partition", "offset")
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    for row in rows:
        row["timestamp"] = row["timestamp"].replace(tzinfo=UTC).timestamp() * 1000
    table = {"topic": topic, "partition": 1}
    assert rows == [
        table
        | {"key": None, "value": b"", "partition": 0, "offset": 0, "timestamp": T0 + 9, "headers": None},
        table
        | {"key": b"k", "value": b"v", "offset": 0, "timestamp": T0 + 7}
        | {"headers": [{"key": name, "value": value} for name, value in headers]},
        table | {"key": b"gone", "value": None, "offset": 1, "timestamp": T0, "headers": None},
    ]


@pytest.mark.parametrize("kind, expected", [("CreateTime", 0), ("LogAppendTime", 1)])
def test_the_timestamp_type_is_a_column(
    spark: SparkSession, bootstrap: str, topics: Topics, kind: str, expected: int
) -> None:
    topic = topics.make(message_timestamp_type=kind)
    topics.fill(topic, numbered(3))
    frame = load(spark, bootstrap, topic, include_timestamp_type="true")
    assert [row.timestampType for row in frame.collect()] == [expected] * 3
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert "timestampType" not in load(spark, bootstrap, topic).columns
    (first, *_) = (
        (spark.read.format("kohort").schema("timestampType int, offset bigint").options(bootstrap=bootstrap))
        .option("topics", topic)
        .load()
        .orderBy("offset")
        .collect()
    )
    assert tuple(first) == (expected, 0)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_all_codecs_are_read(spark: SparkSession, bootstrap: str, topics: Topics, compression: str) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(5_000), compression=compression)
    assert values(load(spark, bootstrap, topic)) == list(range(5_000))


def test_a_schema_names_the_columns_that_are_wanted(
    spark: SparkSession, bootstrap: str, two_partitions: str
) -> None:
    read = spark.read.format("kohort").schema("offset bigint, value binary")
    frame = read.options(bootstrap=bootstrap, topics=two_partitions).load()
    assert frame.columns == ["offset", "value"]
    assert sorted(frame.collect())[:2] == [(0, b"0"), (0, b"1")]
    with pytest.raises(PySparkException, match="no column value string; there are key binary, value binary"):
        spark.read.format("kohort").schema("value string").options(
            bootstrap=bootstrap, topics="x"
        ).load().count()


@pytest.mark.parametrize(
    ("range_", "expected"),
    [
        (("earliest", "latest"), list(range(100))),
        (({"0": 10, "1": 48}, {"0": 12, "1": -1}), [20, 22, 97, 99]),
        (({"0": -2, "1": -1}, {"0": 3, "1": -1}), [0, 2, 4]),
        ((f"timestamp:{T0 + 95_000}", "latest"), [95, 96, 97, 98, 99]),
        (("earliest", f"timestamp:{T0 + 3_000}"), [0, 1, 2]),
        (("timestamp:2023-11-14T22:14:58Z", "latest"), [98, 99]),
        ((f"timestamp:{T0 + 999_000}", "latest"), []),
    ],
)
def test_a_range_starts_and_ends_at_the_given_offsets(
    spark: SparkSession,
    bootstrap: str,
    two_partitions: str,
    range_: tuple[object, object],
    expected: list[int],
) -> None:
    starting, ending = (
        json.dumps({two_partitions: each}) if isinstance(each, dict) else str(each) for each in range_
    )
    assert values(load(spark, bootstrap, two_partitions, starting=starting, ending=ending)) == expected


def test_a_group_gives_the_start_offsets(spark: SparkSession, bootstrap: str, two_partitions: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets("readers", {TopicPartition(two_partitions, 1): OffsetAndMetadata(49)})
    frame = load(spark, bootstrap, two_partitions, starting="group:readers")
    assert values(frame) == sorted([*range(0, 100, 2), 99]), (
        "a partition without an offset begins at its start"
    )


def test_rows_per_partition_makes_more_tasks(
    spark: SparkSession, bootstrap: str, two_partitions: str
) -> None:
    frame = load(spark, bootstrap, two_partitions, rows_per_partition="20")
    assert frame.rdd.getNumPartitions() == 6
    assert values(frame) == list(range(100))


def test_a_pattern_chooses_topics(spark: SparkSession, bootstrap: str, topics: Topics) -> None:
    first, second = topics.make(), topics.make()
    topics.fill(first, numbered(3))
    topics.fill(second, numbered(2, first=3))
    read = spark.read.format("kohort").options(bootstrap=bootstrap, pattern=f"{first[:-1]}.|{second}")
    assert values(read.load()) == [0, 1, 2, 3, 4]


def test_deleted_records_are_an_error_unless_allowed(
    spark: SparkSession, bootstrap: str, topics: Topics
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(10))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4})
    assert values(load(spark, bootstrap, topic)) == [4, 5, 6, 7, 8, 9], "earliest is what there is"
    starting = json.dumps({topic: {"0": 1}})
    with pytest.raises(PySparkException, match="begins at 4 now: offsets from 1 on were deleted"):
        load(spark, bootstrap, topic, starting=starting).count()
    forgiving = load(spark, bootstrap, topic, starting=starting, fail_on_data_loss="false")
    assert places(forgiving.collect()) == [(0, offset) for offset in range(4, 10)]
    with pytest.raises(PySparkException, match="ends at 10, before 11"):
        load(spark, bootstrap, topic, ending=json.dumps({topic: {"0": 11}})).count()


def test_an_empty_topic_has_no_rows(spark: SparkSession, bootstrap: str, topics: Topics) -> None:
    assert load(spark, bootstrap, topics.make(3)).count() == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "option 'bootstrap' is missing"),
        ({"bootstrap": NOWHERE}, "give either topics"),
        (
            {"bootstrap": NOWHERE, "topics": "t", "topic_s": "x"},
            "unknown option 'topic_s'; did you mean 'topics'",
        ),
        ({"bootstrap": NOWHERE, "topics": "t", "starting": "now"}, "starting is 'now': give earliest"),
        ({"bootstrap": NOWHERE, "topics": "t", "fetch_bytes": "-1"}, "fetch_bytes is '-1'"),
        ({"bootstrap": NOWHERE, "topics": "t", "timeout_ms": "300"}, "Connection refused"),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(
    spark: SparkSession, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(PySparkException, match=complaint):
        spark.read.format("kohort").options(**options).load().count()


def test_a_topic_that_does_not_exist_is_an_error(spark: SparkSession, bootstrap: str) -> None:
    with pytest.raises(PySparkException, match="there is no topic 'nosuch'"):
        load(spark, bootstrap, "nosuch").count()
