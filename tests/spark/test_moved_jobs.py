"""Jobs of Spark's Kafka source that move to kohort by one word: the format. Both get the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.topics import Sent, Topics

BEGAN_MS = 1_700_000_000_000
RECORDS = 300
FORMATS = ("kafka", "kohort")
STREAM_TIMEOUT_S = 60


class Filled(NamedTuple):
    """Two topics with three partitions each; the first also has an aborted transaction."""

    orders: str
    orders_archive: str


@pytest.fixture(scope="module")
def filled(topics: Topics) -> Filled:
    orders = topics.make(3)
    found = Filled(orders, f"{orders}-archive")
    topics.make_named(found.orders_archive, 3)
    for topic in found:
        topics.fill(
            topic,
            [
                Sent(
                    None if number % 50 == 0 else b"%d" % number,
                    b"key-%d" % (number % 7) if number % 2 else None,
                    partition=number % 3,
                    timestamp_ms=BEGAN_MS + number * 1_000,
                    headers=[("h", b"%d" % number), ("empty", None)] if number % 10 == 0 else (),
                )
                for number in range(RECORDS)
            ],
        )
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": f"moved-{orders}"})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(3):
        producer.produce(orders, b"-1", partition=partition, timestamp=BEGAN_MS + RECORDS * 1_000)
    producer.flush()
    producer.abort_transaction()
    return found


def by_partition(filled: Filled, *numbers: int) -> str:
    return json.dumps({filled.orders: {str(index): number for index, number in enumerate(numbers)}})


BATCHES: dict[str, Callable[[Filled], dict[str, str]]] = {
    "subscribe": lambda topics: {"subscribe": topics.orders},
    "two topics": lambda topics: {"subscribe": f"{topics.orders},{topics.orders_archive}"},
    "subscribePattern": lambda topics: {"subscribePattern": f"{topics.orders}.*"},
    "assign": lambda topics: {"assign": json.dumps({topics.orders: [0, 2], topics.orders_archive: [1]})},
    "offsets": lambda topics: {
        "subscribe": topics.orders,
        "startingOffsets": by_partition(topics, 10, -2, 90),
        "endingOffsets": by_partition(topics, 40, 30, -1),
    },
    "timestamps": lambda topics: {
        "subscribe": topics.orders_archive,
        "startingTimestamp": str(BEGAN_MS + 50_500),
        "endingTimestamp": str(BEGAN_MS + 200_000),
        "startingOffsets": "earliest",
    },
    "timestamps of partitions": lambda topics: {
        "subscribe": topics.orders,
        "startingOffsetsByTimestamp": by_partition(topics, BEGAN_MS, BEGAN_MS + 9_000, BEGAN_MS + 100_000),
        "endingOffsetsByTimestamp": by_partition(
            topics, BEGAN_MS + 10_000, BEGAN_MS + 99_000_000, BEGAN_MS + 150_000
        ),
    },
    "no record as recent": lambda topics: {
        "subscribe": topics.orders,
        "startingTimestamp": str(BEGAN_MS + 99_000_000),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "read_committed": lambda topics: {
        "subscribe": topics.orders,
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
    },
    "minPartitions": lambda topics: {"subscribe": topics.orders, "minPartitions": "8"},
    "maxRecordsPerPartition": lambda topics: {"subscribe": topics.orders, "maxRecordsPerPartition": "17"},
    "settings of the client": lambda topics: {
        "subscribe": topics.orders,
        "failOnDataLoss": "false",
        "groupIdPrefix": "moved",
        "kafkaConsumer.pollTimeoutMs": "30000",
        "fetchOffset.numRetries": "5",
        "fetchOffset.retryIntervalMs": "20",
        "kafka.request.timeout.ms": "20000",
        "kafka.session.timeout.ms": "15000",
        "kafka.max.poll.records": "100",
        "kafka.fetch.max.bytes": "1000000",
        "kafka.client.id": "moved",
    },
}


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return all columns of all rows, in the order of the records."""
    found = frame.collect()
    return sorted((tuple(each) for each in found), key=lambda each: (each[2], each[3], each[4]))


@pytest.mark.parametrize("name", BATCHES)
def test_batch_gets_the_same_rows(connector: SparkSession, bootstrap: str, filled: Filled, name: str) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, **BATCHES[name](filled)}
    theirs, ours = (connector.read.format(each).options(**options).load() for each in FORMATS)
    assert ours.columns == theirs.columns
    assert [each.dataType for each in ours.schema] == [each.dataType for each in theirs.schema]
    found = rows(theirs)
    assert rows(ours) == found
    assert (len(found) == 0) == (name == "no record as recent")
    if name == "minPartitions":
        assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions() >= 8


@pytest.mark.parametrize(
    "more",
    [
        {"startingOffsets": "earliest"},
        {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "90"},
        {"startingTimestamp": str(BEGAN_MS + 60_000), "minPartitions": "6"},
        {"startingOffsets": "earliest", "minOffsetsPerTrigger": "1000", "maxTriggerDelay": "1h"},
    ],
    ids=["all", "maxOffsetsPerTrigger", "startingTimestamp", "minOffsetsPerTrigger"],
)
def test_stream_gets_the_same_rows(
    connector: SparkSession, bootstrap: str, filled: Filled, tmp_path: Path, more: dict[str, str]
) -> None:
    found = {}
    for each in FORMATS:
        reader = connector.readStream.format(each).option("kafka.bootstrap.servers", bootstrap)
        frame = reader.option("subscribe", filled.orders).options(**more).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"c-{each}"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / each))
        assert query.awaitTermination(STREAM_TIMEOUT_S)
        batches = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
        found[each] = (rows(connector.read.parquet(str(tmp_path / each))), len(batches))
    assert found["kohort"] == found["kafka"]
    assert found["kafka"][0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"subscribe": "a", "assign": '{"a": [0]}'},
        {"subscribe": "absent"},
        {"subscribe": "ORDERS-archive", "startingTimestamp": str(BEGAN_MS + 99_000_000)},
        {"subscribe": "ORDERS", "kafka.auto.offset.reset": "earliest"},
        {"subscribe": "ORDERS", "kafka.enable.auto.commit": "true"},
        {"subscribe": "ORDERS", "startingOffsets": '{"ORDERS": {"0": 1}}'},
        {"subscribe": "ORDERS", "minPartitions": "none"},
    ],
    ids=lambda options: ", ".join(options) or "nothing",
)
def test_both_refuse_what_is_wrong(
    connector: SparkSession, bootstrap: str, filled: Filled, options: dict[str, str]
) -> None:
    given = {name: value.replace("ORDERS", filled.orders) for name, value in options.items()}
    if "absent" in options.values():
        given["kafka.allow.auto.create.topics"] = "false"
    for each in FORMATS:
        reader = connector.read.format(each).option("kafka.bootstrap.servers", bootstrap).options(**given)
        with pytest.raises((PySparkException, Exception), match=r"."):
            reader.load().collect()


def test_sink_takes_the_same_options(
    connector: SparkSession, bootstrap: str, filled: Filled, topics: Topics
) -> None:
    written = connector.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    source = written.option("subscribe", filled.orders_archive).option("includeHeaders", "true").load()
    found = []
    for each in FORMATS:
        target = topics.make(3)
        writer = source.select("key", "value", "partition", "headers").write.format(each).mode("append")
        writer.options(
            **{
                "kafka.bootstrap.servers": bootstrap,
                "topic": target,
                "includeHeaders": "true",
                "kafka.compression.type": "zstd",
                "kafka.acks": "all",
                "kafka.linger.ms": "5",
                "kafka.batch.size": "100000",
            }
        ).save()
        columns = ["key", "value", "partition", "headers"]
        kept = written.option("subscribe", target).option("includeHeaders", "true").load().select(*columns)
        found.append(sorted(map(repr, kept.collect())))
    assert found[0] == found[1]
    assert len(found[0]) == RECORDS
