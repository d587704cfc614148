"""Fetching and reading against a broker process: tables, limits, many partitions at once."""

from __future__ import annotations

import os
from collections.abc import Callable

import anyio
import pytest

from kohort.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from kohort.client.aio import Consumer as AsyncConsumer
from kohort.client.fetch_plan import CHUNKS_AHEAD
from kohort.protocol.records.pairs import read_pairs
from tests.client.steps import LONG_MS, read
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

MakeTopic = Callable[[int], str]


def produce(bootstrap: str, topic: str, count: int, partitions: int = 1, **options: object) -> None:
    with Producer(bootstrap_servers=bootstrap, **options) as producer:  # type: ignore[arg-type]
        for number in range(count):
            producer.send(
                topic,
                b"value %d" % number,
                key=None if number % 3 else b"key %d" % number,
                partition=number % partitions,
                headers=[("h", b"%d" % number)] * (number % 2),
            )


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, each) for each in range(count)]


def rows(records: list[ConsumerRecord]) -> list[tuple[object, ...]]:
    return sorted((each.partition, each.offset, each.key, each.value, each.headers) for each in records)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_table_equals_the_polled_records(bootstrap: str, topic: MakeTopic, compression: str) -> None:
    pytest.importorskip("pyarrow")
    name = topic(3)
    produce(bootstrap, name, 999, 3, compression_type=compression)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(*partitions_of(name, 3))
        polled: list[ConsumerRecord] = []
        while len(polled) < 999:
            polled += consumer.poll(timeout_ms=5_000)
        consumer.seek_to_beginning()
        tabled: list[tuple[object, ...]] = []
        while len(tabled) < 999:
            for each in consumer.poll_arrow(timeout_ms=5_000).to_pylist():
                assert each["topic"] == name
                headers = tuple((header["key"], header["value"]) for header in each["headers"])
                tabled.append((each["partition"], each["offset"], each["key"], each["value"], headers))
        assert consumer.poll_arrow(timeout_ms=0).num_rows == 0
        assert [consumer.position(each) for each in partitions_of(name, 3)] == [333] * 3
    assert sorted(tabled, key=lambda each: each[:2]) == rows(polled)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_batches_have_the_records_of_their_partition(
    bootstrap: str, topic: MakeTopic, compression: str
) -> None:
    name = topic(3)
    produce(bootstrap, name, 99, 3, compression_type=compression)
    found: dict[TopicPartition, list[bytes | None]] = {each: [] for each in partitions_of(name, 3)}
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(*found)
        while sum(map(len, found.values())) < 99:
            for batch in consumer.poll_batches(timeout_ms=5_000):
                found[batch.partition] += (value for _, value in read_pairs(batch.records, batch.header))
        assert consumer.poll_batches(timeout_ms=0) == []
        assert [consumer.position(each) for each in found] == [33] * 3
    assert found == {each: [b"value %d" % n for n in range(each.partition, 99, 3)] for each in found}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_asynchronous_consumer_reads_batches(bootstrap: str, topic: MakeTopic, backend: str) -> None:
    name = topic(1)
    produce(bootstrap, name, 100)

    async def read() -> int:
        async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(TopicPartition(name, 0))
            count = 0
            while count < 100:
                found = await consumer.poll_batches(timeout_ms=5_000, max_bytes=1)
                assert len(found) <= 1
                count += sum(each.header.record_count for each in found)
            return count

    assert anyio.run(read, backend=backend) == 100


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_asynchronous_consumer_reads_tables(bootstrap: str, topic: MakeTopic, backend: str) -> None:
    pytest.importorskip("pyarrow")
    name = topic(1)
    produce(bootstrap, name, 100)

    async def read() -> list[bytes]:
        async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign(TopicPartition(name, 0))
            values: list[bytes] = []
            while len(values) < 100:
                values += (await consumer.poll_arrow(timeout_ms=5_000))["value"].to_pylist()
            return values

    assert anyio.run(read, backend=backend) == [b"value %d" % each for each in range(100)]


def test_tables_are_committed_like_polls(bootstrap: str, topic: MakeTopic, group: str) -> None:
    pytest.importorskip("pyarrow")
    name = topic(1)
    produce(bootstrap, name, 50)
    with Consumer(
        name, group_id=group, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        assert consumer.poll_arrow(timeout_ms=20_000).num_rows == 50
        consumer.commit()
        where = TopicPartition(name, 0)
        committed = consumer.committed(where)[where]
        assert committed is not None
        assert committed.offset == 50


def test_a_batch_larger_than_every_limit_is_read(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for _ in range(3):
            producer.send(name, bytes(200_000)).result()
    with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=1,
        fetch_max_bytes=1,
    ) as consumer:
        consumer.assign(TopicPartition(name, 0))
        sizes = [len(next(consumer).value or b"") for _ in range(3)]
    assert sizes == [200_000] * 3


def chunks_ahead(consumer: Consumer, partition: TopicPartition) -> int:
    return consumer._session.positions.get(partition).stand.fetching.chunks_ahead


def test_a_partition_with_enough_ahead_does_not_keep_others_from_being_fetched(
    bootstrap: str, topic: MakeTopic
) -> None:
    busy, quiet = TopicPartition(topic(1), 0), TopicPartition(topic(1), 0)
    produce(bootstrap, busy.topic, 500, batch_size=1_000, batch_max_size=1_000)
    with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=1_000,
        fetch_max_wait_ms=300,
    ) as consumer:
        consumer.assign(busy, quiet)
        wait_until(lambda: chunks_ahead(consumer, busy) == CHUNKS_AHEAD, "the busy one has enough")
        produce(bootstrap, quiet.topic, 1)
        wait_until(lambda: chunks_ahead(consumer, quiet), "the quiet one was fetched")


def test_a_partition_without_records_does_not_delay_another(bootstrap: str, topic: MakeTopic) -> None:
    busy, empty = TopicPartition(topic(1), 0), TopicPartition(topic(1), 0)
    produce(bootstrap, busy.topic, 500, batch_size=1_000, batch_max_size=1_000)
    with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=1_000,
        fetch_max_wait_ms=LONG_MS,
    ) as consumer:
        consumer.assign(busy, empty)
        wait_until(lambda: chunks_ahead(consumer, busy) == CHUNKS_AHEAD, "the busy one has enough")
        assert len(read(consumer, 500, within_s=60)) == 500  # In less than the time of a fetch.


@pytest.mark.skipif("KOHORT_TEST_BOOTSTRAP" in os.environ, reason="that broker is not ours to restart")
def test_reading_continues_after_the_broker_was_killed(broker: BrokerProcess, topic: MakeTopic) -> None:
    """The broker has forgotten the fetch session, and perhaps begun a new leader epoch."""
    name = topic(4)
    produce(broker.bootstrap, name, 400, 4)
    with Consumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=1_000
    ) as consumer:
        consumer.assign(*partitions_of(name, 4))
        records = consumer.poll(timeout_ms=5_000)
        broker.kill()
        broker.start()
        produce(broker.bootstrap, name, 400, 4)
        while len(records) < 800:
            records += consumer.poll(timeout_ms=20_000)
    assert sorted((each.partition, each.offset) for each in records) == [
        (partition, offset) for partition in range(4) for offset in range(200)
    ]


def test_a_recreated_topic_is_read_with_its_new_id(bootstrap: str, topic: MakeTopic) -> None:
    name, other = topic(1), topic(1)
    produce(bootstrap, name, 5)
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=50
    ) as consumer:
        consumer.assign(TopicPartition(name, 0), TopicPartition(other, 0))
        assert len(consumer.poll(timeout_ms=5_000)) == 5
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_topics(name)
            wait_until(lambda: name not in admin.list_topics(), "the topic is gone")
            admin.create_topics(NewTopic(name, partitions=1))
        produce(bootstrap, name, 3)
        records: list[ConsumerRecord] = []
        while len(records) < 3:
            records += consumer.poll(timeout_ms=20_000)
    assert [each.offset for each in records] == [0, 1, 2]


@pytest.mark.requirement("R22")
def test_a_partition_that_does_not_exist_does_not_affect_the_others(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(TopicPartition(name, 7), TopicPartition(name, 0), TopicPartition("no-such-topic", 0))
        assert [each.offset for each in read(consumer, 3)] == [0, 1, 2]


def test_fetched_bytes_are_bounded_and_paused_partitions_use_none_of_others(
    bootstrap: str, topic: MakeTopic
) -> None:
    name = topic(4)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(400):
            producer.send(name, b"x" * 1_000, partition=number % 4)
    first, *others = partitions_of(name, 4)
    with Consumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        prefetch_max_bytes=40_000,
        max_partition_fetch_bytes=20_000,
    ) as consumer:
        consumer.assign(first, *others)
        wait_until(lambda: consumer._buffer.held_bytes >= 40_000, "as much is there as may be")
        consumer.pause(*others)
        found = 0
        for _ in range(200):
            found += len(consumer.poll(timeout_ms=100))
            assert consumer._buffer.held_bytes <= 100_000
            if found == 100:
                break
        assert found == 100
        consumer.resume(*others)
        assert len(read(consumer, 300)) == 300


def test_topics_are_listed(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        assert name in consumer.list_topics()
        assert "__consumer_offsets" not in consumer.list_topics()
