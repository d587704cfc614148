"""Transactions of clients that others have written, unmodified: what was committed is read, nothing else."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from kohort.client import Admin, NewTopic
from tests.interop.go_programs import go_program
from tests.interop.kafka_tools import MissingTool, java_command, run_program
from tests.repetitions import only_by_night

confluent_kafka = pytest.importorskip("confluent_kafka")
aiokafka = pytest.importorskip("aiokafka")

TIMEOUT_S = 30.0


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic with two partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=2))
    return name


def transactional(bootstrap: str, transactional_id: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def read(bootstrap: str, topic: str, index: int = 0, level: str = "read_committed") -> list[bytes]:
    """Return the values of a partition up to its end, as this isolation level has it."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": level,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                return values
            values.append(message.value())
    finally:
        consumer.close()


def test_confluent_reads_committed_transactions_of_confluent(bootstrap: str, topic: str) -> None:
    producer = transactional(bootstrap, uuid.uuid4().hex)
    for number in range(6):
        producer.begin_transaction()
        for index in (0, 1):
            producer.produce(topic, b"%d" % number, partition=index)
        assert producer.flush(TIMEOUT_S) == 0
        if number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    for index in (0, 1):
        assert read(bootstrap, topic, index) == [b"0", b"2", b"4"]
    uncommitted = [b"%d" % number for number in range(6)]
    assert read(bootstrap, topic, 0, "read_uncommitted") == [*uncommitted, b"open"]
    producer.abort_transaction(TIMEOUT_S)
    assert read(bootstrap, topic) == [b"0", b"2", b"4"]


def test_confluent_commits_offsets_with_records_or_not_at_all(bootstrap: str, topic: str) -> None:
    group = uuid.uuid4().hex
    source = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        source.produce(topic, b"%d" % number, partition=0)
    assert source.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    seen = 0
    while seen < 10:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        seen += message.error() is None
    producer = transactional(bootstrap, uuid.uuid4().hex)
    place = confluent_kafka.TopicPartition
    for offset, is_commit in ((4, True), (9, False)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [place(topic, 0, offset)], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        if is_commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
        (committed,) = consumer.committed([place(topic, 0)], TIMEOUT_S)
        assert committed.offset == 4
    consumer.close()


def test_a_second_confluent_producer_fences_the_first(bootstrap: str, topic: str) -> None:
    transactional_id = uuid.uuid4().hex
    first = transactional(bootstrap, transactional_id)
    first.begin_transaction()
    first.produce(topic, b"of the first", partition=0)
    assert first.flush(TIMEOUT_S) == 0
    second = transactional(bootstrap, transactional_id)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        first.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    second.begin_transaction()
    second.produce(topic, b"of the second", partition=0)
    second.commit_transaction(TIMEOUT_S)
    assert read(bootstrap, topic) == [b"of the second"]


def test_aiokafka_commits_and_aborts(bootstrap: str, topic: str) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=uuid.uuid4().hex)
        await producer.start()
        try:
            for number in range(6):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number, partition=0)
                await producer.send_offsets_to_transaction(
                    {aiokafka.TopicPartition(topic, 1): number}, "group-of-aiokafka"
                )
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        finally:
            await producer.stop()

    async def read_all() -> tuple[list[bytes], int]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id="group-of-aiokafka",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition, aiokafka.TopicPartition(topic, 1)])
            consumer.seek(partition, 0)
            values: list[bytes] = []
            while len(values) < 3:
                got = await consumer.getmany(partition, timeout_ms=1000)
                values += [each.value for each in got.get(partition, [])]
            committed = await consumer.committed(aiokafka.TopicPartition(topic, 1))
            return values, committed
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(write(), TIMEOUT_S))
    values, committed = asyncio.run(asyncio.wait_for(read_all(), TIMEOUT_S))
    assert values == [b"0", b"2", b"4"]
    assert committed == 4
    assert read(bootstrap, topic) == [b"0", b"2", b"4"]


def test_java_commits_aborts_fences_and_describes(bootstrap: str) -> None:
    try:
        command = java_command("clients", "Transactions", bootstrap)
    except MissingTool as missing:
        pytest.skip(str(missing))
    output = run_program(command)
    assert output.status == 0, output.out + output.err
    printed = dict(line.split("=", 1) for line in output.lines)
    committed = "[" + ", ".join(f"{number}.{copy}" for number in range(0, 10, 2) for copy in range(3)) + "]"
    assert printed == {
        "transaction.version": "2",
        "state": "Ongoing",
        "partitions": "2",
        "java-.*": "1",
        "nobody-.*": "0",
        "open producers": "1",
        "committed first": committed,
        "committed second": committed,
        "uncommitted first": "30",
        "group's offset": "3",
        "group's offset after abort": "3",
        "in": "[in0, in1, in2, in3, in4]",
        "fenced": printed["fenced"],
        "last": "of the newer one",
        "all": "16",
    }
    assert printed["fenced"] in ("ProducerFencedException", "InvalidProducerEpochException")


@only_by_night
def test_franz_go_commits_aborts_fences_and_copies(bootstrap: str) -> None:
    try:
        program = go_program("transactions")
    except MissingTool as missing:
        pytest.skip(str(missing))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(
            NewTopic("go-out", partitions=2),
            NewTopic("go-in", partitions=1),
            NewTopic("go-copied", partitions=1),
        )
    output = run_program([str(program), bootstrap])
    assert output.status == 0, output.out + output.err
    assert output.lines == [
        "committed 0=0 2 4",
        "committed 1=0 2 4",
        "the older one is fenced=true",
        "after the fence=0 2 4 of the newer one",
        "copied=" + " ".join(map(str, range(20))),
        "in several transactions=true",
    ]
