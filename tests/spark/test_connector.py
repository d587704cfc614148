"""Spark's own Kafka connector, unmodified, on kohort: it reads and writes, in batches and in streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from kohort.client import Admin
from tests.interop.waiting import wait_until
from tests.security.guarded import PASSWORD, USER, guarded
from tests.spark.topics import Sent, Topics, numbered, values

STREAM_TIMEOUT_S = 60


def read(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(subscribe=topic, **options).load()


def stream(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(subscribe=topic, startingOffsets="earliest", **options).load()


def finish(query: StreamingQuery) -> list[int]:
    """Return how many rows each batch had, once the query is over."""
    assert query.awaitTermination(STREAM_TIMEOUT_S)
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def test_the_connector_reads_a_batch(connector: SparkSession, bootstrap: str, topics: Topics) -> None:
    topic = topics.make(3)
    topics.fill(topic, numbered(3_000, partitions=3), compression="zstd")
    assert values(read(connector, bootstrap, topic)) == list(range(3_000))
    some = {"startingOffsets": json.dumps({topic: {"0": 10, "1": -2, "2": 500}}), "minPartitions": "6"}
    assert read(connector, bootstrap, topic, **some).count() == 990 + 1_000 + 500
    by_time = read(
        connector, bootstrap, topic, startingTimestamp="1700000000000", endingTimestamp="1700000000001"
    )
    assert by_time.count() == 3_000, "nothing is as late as the end"


def test_the_connector_reads_keys_headers_and_nulls(
    connector: SparkSession, bootstrap: str, topics: Topics
) -> None:
    topic = topics.make()
    topics.fill(topic, [Sent(None, b"k", headers=[("h", b"1"), ("h", None)]), Sent(b"v")])
    first, second = read(connector, bootstrap, topic, includeHeaders="true").orderBy("offset").collect()
    assert (first.key, first.value, [tuple(each) for each in first.headers]) == (
        b"k",
        None,
        [("h", b"1"), ("h", None)],
    )
    assert (second.key, second.value, second.headers) == (None, b"v", None)


def test_the_connector_streams_existing_records_and_continues(
    connector: SparkSession, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    topic, table, checkpoint = topics.make(2), str(tmp_path / "table"), str(tmp_path / "checkpoint")

    def run() -> list[int]:
        frame = stream(connector, bootstrap, topic, maxOffsetsPerTrigger="400")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        return finish(writer.trigger(availableNow=True).start(table))

    topics.fill(topic, numbered(1_000, partitions=2))
    assert run() == [400, 400, 200]
    topics.fill(topic, numbered(10, partitions=2, first=1_000))
    assert run() == [10]
    assert values(connector.read.parquet(table)) == list(range(1_010))


def test_the_connector_streams_micro_batches_of_new_records(
    connector: SparkSession, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    frame = stream(connector, bootstrap, topic)
    writer = (
        frame.writeStream.format("memory").queryName("arrived").option("checkpointLocation", str(tmp_path))
    )
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        for first in (0, 100, 200):
            topics.fill(topic, numbered(100, partitions=2, first=first))
            wait_until(
                lambda most=first + 100: connector.table("arrived").count() == most, f"{first} and more"
            )
    finally:
        query.stop()
    assert values(connector.table("arrived")) == list(range(300))


def test_the_connector_writes_batches_and_streams(
    connector: SparkSession, bootstrap: str, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.make(2), topics.make(3)
    topics.fill(source, numbered(500, partitions=2))
    rows = read(connector, bootstrap, source).select("key", "value")
    sink = {"kafka.bootstrap.servers": bootstrap, "topic": target}
    rows.write.format("kafka").options(**sink).save()
    assert values(read(connector, bootstrap, target)) == list(range(500))
    streamed = stream(connector, bootstrap, source).select("key", "value").writeStream.format("kafka")
    query = streamed.options(**sink, checkpointLocation=str(tmp_path)).trigger(availableNow=True).start()
    assert finish(query) == [500]
    assert values(read(connector, bootstrap, target)) == sorted([*range(500)] * 2)


def test_the_connector_authenticates_and_respects_permissions(
    connector: SparkSession, tmp_path: Path
) -> None:
    with guarded(tmp_path, "sasl.enabled.mechanisms=SCRAM-SHA-512") as here:
        with Admin(bootstrap_servers=here.plain) as admin:
            admin.set_user_password(USER, PASSWORD, mechanisms=["SCRAM-SHA-512"])

        def options(password: str) -> dict[str, str]:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            return {
                "kafka.bootstrap.servers": here.at("SASL_SSL"),
                "kafka.security.protocol": "SASL_SSL",
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": str(here.trusted),
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
            }

        right, wrong = options(PASSWORD), options("a guess")
        rows = connector.range(300).selectExpr("CAST(id AS STRING) AS value")
        rows.write.format("kafka").options(**right, topic="sealed").save()
        found = connector.read.format("kafka").options(**right, subscribe="sealed").load()
        assert values(found) == list(range(300))
        with pytest.raises(Py4JJavaError, match="Authentication failed"):
            connector.read.format("kafka").options(**wrong, subscribe="sealed").load().count()
