"""kohort's consumer reads from Apache Kafka what transactions have left: needs Java and Maven."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from kohort.client import Admin, Consumer, NewTopic, TopicPartition
from tests.differential import apache_kafka

confluent_kafka = pytest.importorskip("confluent_kafka")

SETTINGS = ("transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1")
FLUSH_S = 30.0


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker of Apache Kafka listens."""
    with apache_kafka.running(tmp_path_factory.mktemp("kafka"), *SETTINGS) as bootstrap:
        yield bootstrap


@pytest.fixture
def partition(kafka: str) -> TopicPartition:
    """A partition that holds, in turns, committed and aborted transactions, and an open one at its end."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=kafka) as admin:
        admin.create_topics(NewTopic(name, partitions=1))
    return TopicPartition(name, 0)


def transactional(kafka: str, compression: str = "none") -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka,
            "transactional.id": uuid.uuid4().hex,
            "linger.ms": 0,
            "compression.type": compression,
        }
    )
    producer.init_transactions(FLUSH_S)
    return producer


def write(producer: confluent_kafka.Producer, partition: TopicPartition, *values: bytes) -> None:
    """Send the records, and wait until the broker has them."""
    for value in values:
        producer.produce(partition.topic, value, partition=partition.partition)
    assert producer.flush(FLUSH_S) == 0


def read(kafka: str, partition: TopicPartition, isolation_level: str, until: int) -> list[bytes]:
    """Return the values up to the position `until`, which markers and aborted records count for, too."""
    with Consumer(
        bootstrap_servers=kafka, auto_offset_reset="earliest", isolation_level=isolation_level
    ) as consumer:
        consumer.assign(partition)
        values: list[bytes] = []
        while consumer.position(partition) < until:
            values += [each.value or b"" for each in consumer.poll(timeout_ms=500)]
        return values


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_read_committed_reads_neither_aborted_nor_open_transactions(
    kafka: str, partition: TopicPartition, compression: str
) -> None:
    one, two = transactional(kafka, compression), transactional(kafka, compression)
    one.begin_transaction()
    two.begin_transaction()
    write(one, partition, b"a0", b"a1")
    write(two, partition, b"c2", b"c3")
    write(one, partition, b"a4")
    one.abort_transaction(FLUSH_S)  # Its marker is offset 5,
    two.commit_transaction(FLUSH_S)  # and that 6.
    one.begin_transaction()
    write(one, partition, b"c7")
    one.commit_transaction(FLUSH_S)
    two.begin_transaction()
    write(two, partition, b"open9")
    committed = [b"c2", b"c3", b"c7"]
    assert read(kafka, partition, "read_committed", 9) == committed
    assert read(kafka, partition, "read_uncommitted", 10) == [
        b"a0",
        b"a1",
        b"c2",
        b"c3",
        b"a4",
        b"c7",
        b"open9",
    ]
    ends = []
    for level in ("read_committed", "read_uncommitted"):
        with Consumer(bootstrap_servers=kafka, isolation_level=level) as consumer:
            ends.append(consumer.end_offsets(partition)[partition])
    assert ends == [9, 10]
    two.abort_transaction(FLUSH_S)
    assert read(kafka, partition, "read_committed", 11) == committed


def test_tables_skip_aborted_transactions_too(kafka: str, partition: TopicPartition) -> None:
    pytest.importorskip("pyarrow")
    producer = transactional(kafka)
    for number in range(6):
        producer.begin_transaction()
        write(producer, partition, b"%d" % number)
        if number % 2:
            producer.abort_transaction(FLUSH_S)
        else:
            producer.commit_transaction(FLUSH_S)
    values: list[bytes] = []
    with Consumer(
        bootstrap_servers=kafka, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(partition)
        while consumer.position(partition) < 12:
            values += consumer.poll_arrow(timeout_ms=500)["value"].to_pylist()
    assert values == [b"%d" % number for number in range(0, 6, 2)]


def test_a_session_reads_many_partitions_of_many_topics(kafka: str) -> None:
    names = [f"topic-{uuid.uuid4().hex[:8]}" for _ in range(5)]
    with Admin(bootstrap_servers=kafka) as admin:
        admin.create_topics(*(NewTopic(name, partitions=10) for name in names))
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka})
    for number in range(2_000):
        producer.produce(names[number % 5], b"%d" % number, partition=number // 5 % 10)
    assert producer.flush(FLUSH_S) == 0
    seen: list[int] = []
    with Consumer(bootstrap_servers=kafka, auto_offset_reset="earliest") as consumer:
        consumer.assign(*(TopicPartition(name, each) for name in names for each in range(10)))
        while len(seen) < 2_000:
            seen += [int(each.value or b"-1") for each in consumer.poll(timeout_ms=5_000)]
    assert sorted(seen) == list(range(2_000))
