"""The work of each client in `benchmarks/clients.py`: read or write so many records, in records a second."""

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import anyio

if TYPE_CHECKING:
    import pyarrow as pa

Place = TypeVar("Place")

LINGER_MS = 5
BATCH_BYTES = 16_384
AT_ONCE = 500
POLL_MS = 1_000
TABLE_BYTES = 1 << 20
FLUSH_S = 60
FIRST = b"connects before the clock starts"

VALUES = 997  # A prime, so that every partition gets values of every size.


class Job(NamedTuple):
    """What to read or write: values of `record_bytes` each, or if varied of half to one and a half of it."""

    bootstrap: str
    topic: str
    partitions: int
    record_bytes: int
    varied: bool
    total: int

    def values(self) -> list[bytes]:
        """Return the values that are sent in turns."""
        if not self.varied:
            return [bytes(self.record_bytes)]
        dice = random.Random(self.record_bytes)
        return [
            bytes(dice.randint(self.record_bytes // 2, self.record_bytes * 3 // 2)) for _ in range(VALUES)
        ]

    def records(self) -> Iterator[tuple[bytes, int]]:
        """Yield each value, and the partition that it goes to."""
        partitions, count = self.partitions, self.total
        return zip(cycle(self.values()), (number % partitions for number in range(count)), strict=False)

    def places(self, make: Callable[[str, int], Place]) -> list[Place]:
        """Return every partition as a client wants it."""
        return [make(self.topic, each) for each in range(self.partitions)]

    def value_bytes(self) -> int:
        """Return what all values together take."""
        sizes = [len(each) for each in self.values()]
        rounds, rest = divmod(self.total, len(sizes))
        return rounds * sum(sizes) + sum(sizes[:rest])


class Pace(NamedTuple):
    """How fast a client was: by the clock, and by the CPU time that its process took for a record."""

    records_per_second: float
    cpu_ns: float


class Stopwatch:
    """Runs from its making on."""

    def __init__(self) -> None:
        self._began_s, self._began_cpu_s = time.perf_counter(), time.process_time()

    def pace(self, records: int) -> Pace:
        """Return the rate of the records handled since then."""
        elapsed_s, cpu_s = time.perf_counter() - self._began_s, time.process_time() - self._began_cpu_s
        return Pace(records / elapsed_s, cpu_s / records * 1e9)


Runner = Callable[[Job], Pace]


def make_topic(bootstrap: str, partitions: int) -> str:
    """Return a new topic."""
    from kohort.client import Admin, NewTopic

    name = f"bench-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=partitions))
    return name


def fill(job: Job) -> None:
    """Write the records for the consumers, in the batches of a producer with default settings."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": job.bootstrap, "batch.size": BATCH_BYTES, "linger.ms": LINGER_MS}
    )
    for number, (value, partition) in enumerate(job.records()):
        producer.produce(job.topic, value, partition=partition)
        if number % 10_000 == 0:
            producer.flush(FLUSH_S)
    assert producer.flush(FLUSH_S) == 0


class Meter:
    """Counts from the first records on: the time to connect is not measured."""

    def __init__(self, job: Job) -> None:
        self._left, self._bytes_left, self._count = job.total, job.value_bytes(), 0
        self._stopwatch: Stopwatch | None = None
        self._pace: Pace | None = None

    def more(self, records: int, value_bytes: int) -> bool:
        """Count the arrived records; return whether more must arrive."""
        self._left -= records
        self._bytes_left -= value_bytes
        if self._stopwatch is not None:
            self._count += records
        elif records:
            self._stopwatch = Stopwatch()
        if self._left:
            return True
        assert self._bytes_left == 0
        assert self._stopwatch is not None
        self._pace = self._stopwatch.pace(self._count)
        return False

    def pace(self) -> Pace:
        assert self._pace is not None
        return self._pace


# Consumers


def _bytes_of(records: Iterable[Any]) -> int:
    """Return the size of their values: reading means looking at each."""
    size = 0
    for each in records:
        size += len(each.value)
    return size


def _bytes_of_table(table: "pa.Table") -> int:
    import pyarrow.compute

    lengths = pyarrow.compute.binary_length(table["value"])
    return pyarrow.compute.sum(lengths).as_py() or 0


def _count(found: Mapping[Any, Sequence[Any]]) -> tuple[int, int]:
    """Return how many records arrived, by partition, and the size of their values."""
    return sum(map(len, found.values())), sum(map(_bytes_of, found.values()))


def kohort_poll(job: Job) -> Pace:
    from kohort.client import Consumer, TopicPartition

    meter = Meter(job)
    with Consumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(*job.places(TopicPartition))
        more = True
        while more:
            records = consumer.poll(timeout_ms=POLL_MS)
            more = meter.more(len(records), _bytes_of(records))
        return meter.pace()


def kohort_tables(job: Job) -> Pace:
    from kohort.client import Consumer, TopicPartition

    meter = Meter(job)
    with Consumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(*job.places(TopicPartition))
        more = True
        while more:
            table = consumer.poll_arrow(timeout_ms=POLL_MS, max_bytes=TABLE_BYTES)
            more = meter.more(table.num_rows, _bytes_of_table(table))
        return meter.pace()


def kohort_aio_tables(job: Job) -> Pace:
    from kohort.client import TopicPartition
    from kohort.client.aio import Consumer

    async def run() -> Pace:
        meter = Meter(job)
        async with Consumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(*job.places(TopicPartition))
            more = True
            while more:
                table = await consumer.poll_arrow(timeout_ms=POLL_MS, max_bytes=TABLE_BYTES)
                more = meter.more(table.num_rows, _bytes_of_table(table))
            return meter.pace()

    return anyio.run(run)


def kohort_loop(job: Job) -> Pace:
    from kohort.client import Consumer, TopicPartition

    meter = Meter(job)
    with Consumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(*job.places(TopicPartition))
        meter.more(1, len(next(consumer).value or b""))
        seen, size = 1, 0
        for each in consumer:
            size += len(each.value)  # type: ignore[arg-type]
            seen += 1
            if seen == job.total:
                break
        meter.more(job.total - 1, size)
        return meter.pace()


def kohort_aio_poll(job: Job) -> Pace:
    from kohort.client import TopicPartition
    from kohort.client.aio import Consumer

    async def run() -> Pace:
        meter = Meter(job)
        async with Consumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(*job.places(TopicPartition))
            more = True
            while more:
                records = await consumer.poll(timeout_ms=POLL_MS)
                more = meter.more(len(records), _bytes_of(records))
            return meter.pace()

    return anyio.run(run)


def kohort_aio_loop(job: Job) -> Pace:
    from kohort.client import TopicPartition
    from kohort.client.aio import Consumer

    async def run() -> Pace:
        meter = Meter(job)
        async with Consumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(*job.places(TopicPartition))
            meter.more(1, len((await anext(consumer)).value or b""))
            seen, size = 1, 0
            async for each in consumer:
                size += len(each.value)  # type: ignore[arg-type]
                seen += 1
                if seen == job.total:
                    break
            meter.more(job.total - 1, size)
            return meter.pace()

    return anyio.run(run)


def _confluent_consumer(job: Job) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(job.topic, each, OFFSET_BEGINNING) for each in range(job.partitions)])
    return consumer


def confluent_batches(job: Job) -> Pace:
    consumer = _confluent_consumer(job)
    meter = Meter(job)
    more = True
    while more:
        records = consumer.consume(AT_ONCE, POLL_MS / 1000)
        size = 0
        for each in records:
            size += len(each.value())
        more = meter.more(len(records), size)
    return meter.pace()


def confluent_loop(job: Job) -> Pace:
    consumer = _confluent_consumer(job)
    meter = Meter(job)
    more = True
    while more:
        record = consumer.poll(POLL_MS / 1000)
        if record is not None:
            more = meter.more(1, len(record.value()))
    return meter.pace()


def _aiokafka(work: Callable[[Any, Meter], Awaitable[Pace]]) -> Runner:
    def run(job: Job) -> Pace:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def consume() -> Pace:
            consumer = AIOKafkaConsumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest")
            consumer.assign(job.places(TopicPartition))
            await consumer.start()
            try:
                return await work(consumer, Meter(job))
            finally:
                await consumer.stop()

        return asyncio.run(consume())

    return run


async def _aiokafka_batches(consumer: Any, meter: Meter) -> Pace:
    more = True
    while more:
        found = await consumer.getmany(timeout_ms=POLL_MS, max_records=AT_ONCE)
        more = meter.more(*_count(found))
    return meter.pace()


async def _aiokafka_loop(consumer: Any, meter: Meter) -> Pace:
    async for each in consumer:
        if not meter.more(1, len(each.value)):
            break
    return meter.pace()


def _kafka_python_consumer(job: Job) -> Any:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=job.bootstrap, auto_offset_reset="earliest")
    consumer.assign(job.places(TopicPartition))
    return consumer


def kafka_python_batches(job: Job) -> Pace:
    consumer = _kafka_python_consumer(job)
    meter = Meter(job)
    more = True
    while more:
        found = consumer.poll(timeout_ms=POLL_MS)
        more = meter.more(*_count(found))
    return meter.pace()


def kafka_python_loop(job: Job) -> Pace:
    consumer = _kafka_python_consumer(job)
    meter = Meter(job)
    for each in consumer:
        if not meter.more(1, len(each.value)):
            break
    return meter.pace()


CONSUMERS: dict[str, Runner] = {
    "kohort poll": kohort_poll,
    "kohort aio poll": kohort_aio_poll,
    "kohort poll_arrow": kohort_tables,
    "kohort aio poll_arrow": kohort_aio_tables,
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

KOHORT_PRODUCER: Any = {"acks": "all", "linger_ms": LINGER_MS, "batch_size": BATCH_BYTES}


def kohort_send(job: Job) -> Pace:
    from kohort.client import Producer

    with Producer(bootstrap_servers=job.bootstrap, **KOHORT_PRODUCER) as producer:
        producer.send(job.topic, FIRST).result()
        stopwatch = Stopwatch()
        for value, partition in job.records():
            producer.send(job.topic, value, partition=partition)
        producer.flush()
        return stopwatch.pace(job.total)


def kohort_aio_send(job: Job) -> Pace:
    from kohort.client.aio import Producer

    async def run() -> Pace:
        async with Producer(bootstrap_servers=job.bootstrap, **KOHORT_PRODUCER) as producer:
            await (await producer.send(job.topic, FIRST))
            stopwatch = Stopwatch()
            for value, partition in job.records():
                await producer.send(job.topic, value, partition=partition)
            await producer.flush()
            return stopwatch.pace(job.total)

    return anyio.run(run)


def confluent_produce(job: Job) -> Pace:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": job.bootstrap, "acks": "all", "linger.ms": LINGER_MS, "batch.size": BATCH_BYTES}
    )
    producer.produce(job.topic, FIRST)
    assert producer.flush(FLUSH_S) == 0
    stopwatch = Stopwatch()
    for value, partition in job.records():
        while True:
            try:
                producer.produce(job.topic, value, partition=partition)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(FLUSH_S) == 0
    return stopwatch.pace(job.total)


def aiokafka_send(job: Job) -> Pace:
    from aiokafka import AIOKafkaProducer

    async def run() -> Pace:
        producer = AIOKafkaProducer(
            bootstrap_servers=job.bootstrap, acks="all", linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
        )
        await producer.start()
        try:
            await producer.send_and_wait(job.topic, FIRST)
            stopwatch = Stopwatch()
            for value, partition in job.records():
                await producer.send(job.topic, value, partition=partition)
            await producer.flush()
            return stopwatch.pace(job.total)
        finally:
            await producer.stop()

    return asyncio.run(run())


def kafka_python_send(job: Job) -> Pace:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=job.bootstrap,
        acks="all",
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        enable_idempotence=False,
    )
    producer.send(job.topic, FIRST).get(FLUSH_S)
    stopwatch = Stopwatch()
    for value, partition in job.records():
        producer.send(job.topic, value, partition=partition)
    producer.flush()
    pace = stopwatch.pace(job.total)
    producer.close()
    return pace


PRODUCERS: dict[str, Runner] = {
    "kohort": kohort_send,
    "kohort aio": kohort_aio_send,
    "confluent-kafka": confluent_produce,
    "aiokafka": aiokafka_send,
    "kafka-python": kafka_python_send,
}
