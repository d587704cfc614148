"""Quotas by other people's clients and Kafka's own tools: who is too quick waits, and hears for how long."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer

from kohort.client import Admin, NewTopic, QuotaEntity
from kohort.client import Consumer as OwnConsumer
from kohort.client import Producer as OwnProducer
from tests.interop.broker_process import BrokerProcess
from tests.interop.conftest import running_tools
from tests.repetitions import only_by_night
from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, guarded

PATIENCE_S = 30.0
PLAIN = ("sasl.enabled.mechanisms=PLAIN", f"sasl.jaas.config={PLAIN_USERS}")
RATE = 200_000
BURST_S = 10
"""So many seconds' worth may come at once: the windows before the first are taken as empty."""
RECORD = b"\0" * 50_000
RECORDS = RATE * (BURST_S + 2) // len(RECORD)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker without any authorizer."""
    made = BrokerProcess(tmp_path_factory.mktemp("quotas"))
    made.start()
    yield made
    made.stop()


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=1))
    return name


def run(broker: BrokerProcess, *arguments: str, tool: str = "kafka-configs") -> str:
    with running_tools() as tools:
        output = tools.run(tool, "--bootstrap-server", broker.bootstrap, *arguments)
        assert output.status == 0, output
        return output.out


def test_a_fast_producer_and_a_fast_consumer_are_throttled(broker: BrokerProcess, topic: str) -> None:
    name = f"quick-{uuid.uuid4().hex[:8]}"
    entity = ("--entity-type", "clients", "--entity-name", name)
    set_ = f"producer_byte_rate={RATE},consumer_byte_rate={RATE}"
    assert "Completed updating" in run(broker, "--alter", "--add-config", set_, *entity)
    assert f"producer_byte_rate={RATE}.0" in run(broker, "--describe", *entity)
    throttled: list[int] = []

    def told(text: str) -> None:
        throttled.extend(each["throttle"]["max"] for each in json.loads(text)["brokers"].values())

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": name,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "statistics.interval.ms": 100,
            "stats_cb": told,
        }
    )
    began_s = time.monotonic()
    for _ in range(RECORDS):
        producer.produce(topic, RECORD, partition=0)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert time.monotonic() - began_s > 1.0  # Two seconds' worth were too much.
    assert max(throttled) > 0
    for client, is_slow in ((name, True), ("another", False)):
        options: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client,
            "group.id": client,
        }
        slowed: list[float] = []
        options["throttle_cb"] = lambda event, slowed=slowed: slowed.append(event.throttle_time)
        with closing(Consumer({**options, "fetch.message.max.bytes": 400_000})) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            began_s, found = time.monotonic(), 0
            while found < RECORDS:
                assert time.monotonic() - began_s < PATIENCE_S
                found += consumer.poll(0.1) is not None
            assert (sum(slowed) > 0) is is_slow
            assert not is_slow or time.monotonic() - began_s > 1.0
    assert "Completed updating" in run(
        broker, "--alter", "--delete-config", "producer_byte_rate,consumer_byte_rate", *entity
    )
    assert name not in run(broker, "--describe", *entity)


def test_kafkas_own_tool_sets_and_shows_quotas_of_all_kinds(broker: BrokerProcess) -> None:
    with running_tools() as tools:

        def configs(*arguments: str) -> str:
            output = tools.run("kafka-configs", "--bootstrap-server", broker.bootstrap, *arguments)
            assert output.status == 0, output
            return output.out

        user, default = ("--entity-type", "users", "--entity-name", "carol"), ("--entity-type", "users")
        configs("--alter", "--add-config", "request_percentage=75.5,controller_mutation_rate=3", *user)
        both = (*user, "--entity-type", "clients", "--entity-name", "app")
        configs("--alter", "--add-config", "consumer_byte_rate=1000", *both)
        configs("--alter", "--add-config", "producer_byte_rate=77", *default, "--entity-default")
        address = ("--entity-type", "ips", "--entity-name", "10.9.8.7")
        configs("--alter", "--add-config", "connection_creation_rate=50", *address)
        shown = configs("--describe", *user)
        assert "Quota configs for user-principal 'carol' are " in shown
        assert "request_percentage=75.5" in shown
        assert "controller_mutation_rate=3.0" in shown
        assert "user-principal 'carol', client-id 'app' are consumer_byte_rate=1000.0" in configs(
            "--describe", *both
        )
        assert "the default user-principal are producer_byte_rate=77.0" in configs("--describe", *default)
        assert "ip '10.9.8.7' are connection_creation_rate=50.0" in configs("--describe", *address)
        configs("--alter", "--delete-config", "producer_byte_rate", *default, "--entity-default")
        assert "producer_byte_rate" not in configs("--describe", *default)


def test_quotas_outlive_a_kill(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    entity = ("--entity-type", "clients", "--entity-default")
    run(broker, "--alter", "--add-config", "producer_byte_rate=1234", *entity)
    broker.kill()
    broker.start()
    assert "producer_byte_rate=1234.0" in run(broker, "--describe", *entity)
    broker.stop()


def test_an_address_that_connects_too_often_is_refused(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    # Ten a second over ten seconds are a hundred at once; the tool itself takes a few.
    entity = ("--entity-type", "ips", "--entity-name", "127.0.0.1")
    run(broker, "--alter", "--add-config", "connection_creation_rate=10", *entity)
    opened = []
    for _ in range(130):
        sock = socket.create_connection(broker.address, 5)
        sock.settimeout(PATIENCE_S)
        opened.append(sock)
    assert opened[-1].recv(1) == b""  # Closed, but not at once.
    opened[0].settimeout(0.2)
    with pytest.raises(TimeoutError):
        opened[0].recv(1)
    for sock in opened:
        sock.close()
    broker.stop()


def test_a_quota_applies_to_connected_users(tmp_path: Path) -> None:
    told: list[int] = []

    def note(text: str) -> None:
        told.extend(each["throttle"]["max"] for each in json.loads(text)["brokers"].values())

    with guarded(tmp_path, *PLAIN) as here:
        options: dict[str, Any] = {
            "bootstrap.servers": here.at("SASL_PLAINTEXT"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "statistics.interval.ms": 100,
            "stats_cb": note,
        }
        producer = Producer(options)
        producer.produce("t", b"x", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        entity = ("--entity-type", "users", "--entity-name", USER)
        with running_tools() as tools:
            tool = ("kafka-configs", "--bootstrap-server", here.at("PLAINTEXT"), "--alter")
            assert tools.run(*tool, "--add-config", "producer_byte_rate=100", *entity).status == 0
        producer.produce("t", b"x" * 1_100, partition=0)
        assert producer.flush(PATIENCE_S) == 0
        deadline_s = time.monotonic() + PATIENCE_S
        while not any(told):
            assert time.monotonic() < deadline_s, "nobody has told of a quota"
            producer.poll(0.1)


def by_kohort(options: dict[str, Any], topic: str) -> int:
    with OwnConsumer(topic, **options) as consumer:
        return read_all(lambda: len(consumer.poll(timeout_ms=500)))


def by_kafka_python(options: dict[str, Any], topic: str) -> int:
    with closing(KafkaConsumer(topic, **options)) as consumer:
        return read_all(lambda: sum(map(len, consumer.poll(500).values())))


def by_aiokafka(options: dict[str, Any], topic: str) -> int:
    async def read() -> int:
        consumer = AIOKafkaConsumer(topic, **options)
        await consumer.start()
        found = 0
        try:
            while found < RECORDS:
                found += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
        finally:
            await consumer.stop()
        return found

    return asyncio.run(asyncio.wait_for(read(), 2 * PATIENCE_S))


def read_all(poll: Callable[[], int]) -> int:
    deadline_s, found = time.monotonic() + 2 * PATIENCE_S, 0
    while found < RECORDS:
        assert time.monotonic() < deadline_s, f"{found} of {RECORDS}"
        found += poll()
    return found


@only_by_night
@pytest.mark.parametrize("run", [by_kohort, by_kafka_python, by_aiokafka])
def test_a_reader_beyond_its_quota_reads_all_the_same(
    broker: BrokerProcess, topic: str, run: Callable[[dict[str, Any], str], int]
) -> None:
    name = f"reader-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_quotas(QuotaEntity(client_id=name), {"consumer_byte_rate": RATE})
    with OwnProducer(bootstrap_servers=broker.bootstrap) as producer:
        for _ in range(RECORDS):
            producer.send(topic, RECORD)
    options = {"bootstrap_servers": broker.bootstrap, "client_id": name, "group_id": name}
    began_s = time.monotonic()
    assert run({**options, "auto_offset_reset": "earliest"}, topic) == RECORDS
    assert time.monotonic() - began_s > 1.0  # Two seconds' worth were too much.
