"""A user's program, as strict type checkers see it; nothing here is run."""

import json
from dataclasses import dataclass
from typing import assert_type

from kohort.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    ConsumerRecords,
    OffsetAndMetadata,
    Producer,
    TopicDescription,
    TopicPartition,
    aio,
)
from kohort.client.workers import WorkerPool


@dataclass
class Order:
    """What a value is made into."""

    number: int


def order(data: bytes) -> Order:
    """Return the order that these bytes are."""
    return Order(int(json.loads(data)["number"]))


def plain() -> None:
    with Consumer("orders", group_id="g") as consumer:
        assert_type(consumer, "Consumer[bytes, bytes]")
        for record in consumer:
            handle_bytes(record)
            assert_type(record.value, bytes | None)


def typed() -> None:
    with Consumer(
        "orders", group_id="g", key_deserializer=bytes.decode, value_deserializer=order
    ) as consumer:
        assert_type(consumer, "Consumer[str, Order]")
        records = consumer.poll(timeout_ms=100)
        assert_type(records, "ConsumerRecords[str, Order]")
        for record in records:
            assert_type(record.key, str | None)
            handle_orders(record)
        consumer.commit(records)


def handle_bytes(record: ConsumerRecord) -> None:
    assert_type(record.key, bytes | None)


def handle_orders(record: ConsumerRecord[str, Order]) -> int:
    return 0 if record.value is None else record.value.number


def of(records: ConsumerRecords[str, Order]) -> list[ConsumerRecord[str, Order]]:
    return [each for partition in records.partitions() for each in records.of(partition)]


def pool() -> WorkerPool[str, Order]:
    return WorkerPool(
        "orders", handler=handle_orders, group_id="g", key_deserializer=bytes.decode, value_deserializer=order
    )


async def asynchronous() -> None:
    async with aio.Consumer("orders", group_id="g", value_deserializer=order) as consumer:
        async for record in consumer:
            assert_type(record.value, Order | None)
            assert_type(record.key, bytes | None)


def producing() -> int:
    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("orders", "text")  # type: ignore[arg-type]  # Without a serializer it takes bytes.
        producer.send("orders", bytearray(b"1"), key="text")  # type: ignore[arg-type]
        return producer.send("orders", b"1", headers={"h": b"1"}).result(timeout=5).offset


def digits(number: int) -> bytes:
    return b"%d" % number


def write_numbers() -> None:
    """Serializers take what their producer is given, whatever it is."""
    with Producer(bootstrap_servers="localhost:9092", value_serializer=digits) as producer:
        producer.send("orders", 1, key=b"key")
        producer.send("orders", 1, key="text")  # type: ignore[arg-type]
    with Producer(key_serializer=str.encode, value_serializer=None) as producer_of_keys:
        producer_of_keys.send("orders", b"1", key="text")
    given: Producer = Producer()
    given.send("orders", b"1")


def describe(partition: TopicPartition) -> None:
    """Methods that are made of the asynchronous client's have its types."""
    with Admin(bootstrap_servers="localhost:9092") as admin:
        assert_type(admin.describe_topics("orders"), dict[str, TopicDescription])
        admin.describe_topics(1)  # type: ignore[arg-type]
        admin.list_topics(include_internals=True)  # type: ignore[call-arg]
    with Consumer("orders", group_id="g", value_deserializer=order) as consumer:
        assert_type(consumer.committed(partition), dict[TopicPartition, OffsetAndMetadata | None])
        assert_type(consumer.current_lag(partition), int | None)
        consumer.seek(partition, "1")  # type: ignore[arg-type]
