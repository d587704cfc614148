"""Typed tables: values that Confluent's serializers wrote, as columns of a batch, a stream and SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kohort.testing import Broker

STREAM_TIMEOUT_S = 300
FLIGHT = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
LATER = {**FLIGHT, "fields": [*FLIGHT["fields"], {"name": "delay", "type": ["null", "int"], "default": None}]}
JSON_SCHEMA = {
    "title": "Flight",
    "type": "object",
    "properties": {"carrier": {"type": "string"}, "delay": {"type": "integer"}},
}


@pytest.fixture(scope="module")
def registered() -> Iterator[Broker]:
    with Broker(topics={"avro": 1, "json": 2}, schema_registry=True) as broker:
        yield broker


def write(broker: Broker, topic: str, kind: type, schema: object, *values: object) -> None:
    client = SchemaRegistryClient({"url": broker.schema_registry})
    serializer = (
        kind(client, json.dumps(schema)) if kind is AvroSerializer else kind(json.dumps(schema), client)
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for each in values:
        context = SerializationContext(topic, MessageField.VALUE)
        producer.produce(topic, each if isinstance(each, bytes) else serializer(each, context))
    assert producer.flush(30) == 0


def streamed(frame: DataFrame, folder: Path) -> None:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "table"))
    assert query.awaitTermination(STREAM_TIMEOUT_S)


def test_a_topic_of_avro_is_a_typed_batch_stream_and_view(
    spark: SparkSession, registered: Broker, tmp_path: Path
) -> None:
    options = {
        "bootstrap": registered.bootstrap,
        "topics": "avro",
        "starting": "earliest",
        "schema_registry": registered.schema_registry,
    }
    write(registered, "avro", AvroSerializer, FLIGHT, {"carrier": "AA"}, b"no avro")
    stream = spark.readStream.format("kohort").options(**options).load()
    streamed(stream.select("offset", "value.*", "undecoded"), tmp_path)
    write(registered, "avro", AvroSerializer, LATER, {"carrier": "DL", "delay": 7})
    streamed(stream.select("offset", "value.*", "undecoded"), tmp_path)
    table = spark.read.parquet(str(tmp_path / "table")).orderBy("offset")
    assert [tuple(each) for each in table.collect()] == [
        (0, "AA", None),
        (1, None, b"no avro"),
        (2, "DL", None),
    ]

    batch = spark.read.format("kohort").options(**options).load()
    assert batch.schema["value"].dataType.simpleString() == "struct<carrier:string,delay:int>"
    rows = batch.orderBy("offset").select("value.carrier", "value.delay", "undecoded").collect()
    assert [tuple(each) for each in rows] == [("AA", None, None), (None, None, b"no avro"), ("DL", 7, None)]

    given = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW flights USING kohort OPTIONS ({given})")
    assert spark.sql("SELECT sum(value.delay) FROM flights WHERE value.carrier = 'DL'").first() == (7,)


def test_a_topic_of_json_is_a_typed_table_with_columns_of_choice(
    spark: SparkSession, registered: Broker
) -> None:
    flights = [{"carrier": f"C{number}", "delay": number} for number in range(100)]
    write(registered, "json", JSONSerializer, JSON_SCHEMA, *flights)
    reader = spark.read.format("kohort").option("kafka.bootstrap.servers", registered.bootstrap)
    reader = reader.option("subscribe", "json").option("schema_registry", registered.schema_registry)
    assert reader.load().selectExpr("sum(value.delay)", "count(undecoded)").first() == (4950, 0)
    chosen = reader.schema("value struct<delay: bigint>, partition int").load()
    assert chosen.columns == ["value", "partition"]
    assert chosen.selectExpr("max(value.delay)").first() == (99,)
    own = reader.schema("undecoded binary, offset bigint").load()
    assert own.where("undecoded IS NULL").count() == 100


def test_a_given_schema_needs_no_registry(spark: SparkSession, registered: Broker) -> None:
    registered.create_topic("plain")
    write(registered, "plain", JSONSerializer, JSON_SCHEMA, b'{"carrier": "AA", "delay": 3}', b"no json")
    reader = spark.read.format("kohort").options(bootstrap=registered.bootstrap, topics="plain")
    frame = reader.options(value_schema=json.dumps(JSON_SCHEMA), value_format="json").load()
    rows = frame.orderBy("offset").select("value.carrier", "value.delay", "undecoded").collect()
    assert [tuple(each) for each in rows] == [("AA", 3, None), (None, None, b"no json")]


def test_a_subject_that_is_not_there_says_so(spark: SparkSession, registered: Broker) -> None:
    reader = spark.read.format("kohort").options(bootstrap=registered.bootstrap, topics="absent")
    with pytest.raises(PySparkException, match="has no subject 'absent-value'"):
        reader.option("schema_registry", registered.schema_registry).load()
