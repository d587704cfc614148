"""What `clients.py` lets each client do: read or write so many records, and say how many a second."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

LINGER_MS = 5
BATCH_BYTES = 16_384
AT_ONCE = 500
POLL_MS = 1_000
ACKS_ALL = -1
FLUSH_S = 60

Runner = Callable[[str, str, int, int, int], float]


def make_topic(bootstrap: str, partitions: int) -> str:
    """Return a new topic."""
    from kohort.client import Admin, NewTopic

    name = f"bench-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=partitions))
    return name


def fill(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> None:
    """Write what the consumers are going to read, in the batches of a producer with default settings."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": BATCH_BYTES, "linger.ms": LINGER_MS})
    value = bytes(record_bytes)
    for number in range(count):
        producer.produce(topic, value, partition=number % partitions)
        if number % 10_000 == 0:
            producer.flush(FLUSH_S)
    assert producer.flush(FLUSH_S) == 0


class Meter:
    """Counts from the first records that come: connecting is not what is measured."""

    def __init__(self, count: int, record_bytes: int) -> None:
        self._left, self._record_bytes, self._count = count, record_bytes, 0
        self._began = 0.0

    def more(self, records: int, value_bytes: int) -> bool:
        """Count what has come; return whether there is more to come."""
        assert value_bytes == records * self._record_bytes
        self._left -= records
        if self._began:
            self._count += records
        elif records:
            self._began = time.perf_counter()
        return self._left > 0

    def rate(self) -> float:
        return self._count / (time.perf_counter() - self._began)


# Consumers


def kohort_poll(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from kohort.client import Consumer, TopicPartition

    meter = Meter(count, record_bytes)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(*(TopicPartition(topic, each) for each in range(partitions)))
        more = True
        while more:
            records = consumer.poll(timeout_ms=POLL_MS)
            size = 0
            for each in records:
                size += len(each.value)  # type: ignore[arg-type]
            more = meter.more(len(records), size)
        return meter.rate()


def kohort_loop(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from kohort.client import Consumer, TopicPartition

    meter = Meter(count, record_bytes)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(*(TopicPartition(topic, each) for each in range(partitions)))
        meter.more(1, len(next(consumer).value or b""))
        seen, size = 1, 0
        for each in consumer:
            size += len(each.value)  # type: ignore[arg-type]
            seen += 1
            if seen == count:
                break
        meter.more(count - 1, size)
        return meter.rate()


def kohort_aio_poll(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from kohort.client import TopicPartition
    from kohort.client.aio import Consumer

    async def run() -> float:
        meter = Meter(count, record_bytes)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(*(TopicPartition(topic, each) for each in range(partitions)))
            more = True
            while more:
                records = await consumer.poll(timeout_ms=POLL_MS)
                size = 0
                for each in records:
                    size += len(each.value)  # type: ignore[arg-type]
                more = meter.more(len(records), size)
            return meter.rate()

    return anyio.run(run)


def kohort_aio_loop(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from kohort.client import TopicPartition
    from kohort.client.aio import Consumer

    async def run() -> float:
        meter = Meter(count, record_bytes)
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(*(TopicPartition(topic, each) for each in range(partitions)))
            meter.more(1, len((await anext(consumer)).value or b""))
            seen, size = 1, 0
            async for each in consumer:
                size += len(each.value)  # type: ignore[arg-type]
                seen += 1
                if seen == count:
                    break
            meter.more(count - 1, size)
            return meter.rate()

    return anyio.run(run)


def _confluent_consumer(bootstrap: str, topic: str, partitions: int) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    return consumer


def confluent_batches(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    consumer = _confluent_consumer(bootstrap, topic, partitions)
    meter = Meter(count, record_bytes)
    more = True
    while more:
        records = consumer.consume(AT_ONCE, POLL_MS / 1000)
        size = 0
        for each in records:
            size += len(each.value())
        more = meter.more(len(records), size)
    return meter.rate()


def confluent_loop(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    consumer = _confluent_consumer(bootstrap, topic, partitions)
    meter = Meter(count, record_bytes)
    more = True
    while more:
        record = consumer.poll(POLL_MS / 1000)
        if record is not None:
            more = meter.more(1, len(record.value()))
    return meter.rate()


def _aiokafka(work: Callable[[Any, Meter], Awaitable[float]]) -> Runner:
    def run(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def consume() -> float:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
            consumer.assign([TopicPartition(topic, each) for each in range(partitions)])
            await consumer.start()
            try:
                return await work(consumer, Meter(count, record_bytes))
            finally:
                await consumer.stop()

        return asyncio.run(consume())

    return run


async def _aiokafka_batches(consumer: Any, meter: Meter) -> float:
    more = True
    while more:
        found = await consumer.getmany(timeout_ms=POLL_MS, max_records=AT_ONCE)
        seen = size = 0
        for records in found.values():
            seen += len(records)
            for each in records:
                size += len(each.value)
        more = meter.more(seen, size)
    return meter.rate()


async def _aiokafka_loop(consumer: Any, meter: Meter) -> float:
    async for each in consumer:
        if not meter.more(1, len(each.value)):
            break
    return meter.rate()


def _kafka_python_consumer(bootstrap: str, topic: str, partitions: int) -> Any:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, each) for each in range(partitions)])
    return consumer


def kafka_python_batches(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    consumer = _kafka_python_consumer(bootstrap, topic, partitions)
    meter = Meter(count, record_bytes)
    more = True
    while more:
        found = consumer.poll(timeout_ms=POLL_MS)
        seen = size = 0
        for records in found.values():
            seen += len(records)
            for each in records:
                size += len(each.value)
        more = meter.more(seen, size)
    return meter.rate()


def kafka_python_loop(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    consumer = _kafka_python_consumer(bootstrap, topic, partitions)
    meter = Meter(count, record_bytes)
    for each in consumer:
        if not meter.more(1, len(each.value)):
            break
    return meter.rate()


CONSUMERS: dict[str, Runner] = {
    "kohort poll": kohort_poll,
    "kohort aio poll": kohort_aio_poll,
    "confluent-kafka consume": confluent_batches,
    "aiokafka getmany": _aiokafka(_aiokafka_batches),
    "kafka-python poll": kafka_python_batches,
    "kohort loop": kohort_loop,
    "kohort aio loop": kohort_aio_loop,
    "confluent-kafka poll": confluent_loop,
    "aiokafka loop": _aiokafka(_aiokafka_loop),
    "kafka-python loop": kafka_python_loop,
}


# Producers


def kohort_send(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from kohort.client import Producer

    value = bytes(record_bytes)
    with Producer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    ) as producer:
        producer.send(topic, value).result()
        began = time.perf_counter()
        for number in range(count):
            producer.send(topic, value, partition=number % partitions)
        producer.flush()
        return count / (time.perf_counter() - began)


def kohort_aio_send(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from kohort.client.aio import Producer

    async def run() -> float:
        value = bytes(record_bytes)
        async with Producer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=LINGER_MS, batch_size=BATCH_BYTES
        ) as producer:
            await (await producer.send(topic, value))
            began = time.perf_counter()
            for number in range(count):
                await producer.send(topic, value, partition=number % partitions)
            await producer.flush()
            return count / (time.perf_counter() - began)

    return anyio.run(run)


def confluent_produce(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from confluent_kafka import Producer

    value = bytes(record_bytes)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": LINGER_MS, "batch.size": BATCH_BYTES}
    )
    producer.produce(topic, value)
    assert producer.flush(FLUSH_S) == 0
    began = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(FLUSH_S) == 0
    return count / (time.perf_counter() - began)


def aiokafka_send(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from aiokafka import AIOKafkaProducer

    async def run() -> float:
        value = bytes(record_bytes)
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks="all", linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
        )
        await producer.start()
        try:
            await producer.send_and_wait(topic, value)
            began = time.perf_counter()
            for number in range(count):
                await producer.send(topic, value, partition=number % partitions)
            await producer.flush()
            return count / (time.perf_counter() - began)
        finally:
            await producer.stop()

    return asyncio.run(run())


def kafka_python_send(bootstrap: str, topic: str, partitions: int, record_bytes: int, count: int) -> float:
    from kafka import KafkaProducer

    value = bytes(record_bytes)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        enable_idempotence=False,
    )
    producer.send(topic, value).get(FLUSH_S)
    began = time.perf_counter()
    for number in range(count):
        producer.send(topic, value, partition=number % partitions)
    producer.flush()
    rate = count / (time.perf_counter() - began)
    producer.close()
    return rate


PRODUCERS: dict[str, Runner] = {
    "kohort": kohort_send,
    "kohort aio": kohort_aio_send,
    "confluent-kafka": confluent_produce,
    "aiokafka": aiokafka_send,
    "kafka-python": kafka_python_send,
}
