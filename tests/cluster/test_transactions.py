"""Transactions of several brokers: all of each counts, or none, whoever of them dies.

`ROUNDS` says how many kills, `SEED` repeats the moments of a run that failed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.crash.counting import DEADLINE_S, TOPIC, Reader, committed, started
from tests.interop.waiting import wait_until

ROUNDS = int(os.environ.get("ROUNDS", "4"))
SEED = int(os.environ.get("SEED") or random.randrange(2**32))
LIFE_S = (0.3, 2.0)
SETTINGS = (
    "replica.lag.time.max.ms=1000",
    "replica.fetch.backoff.ms=100",
    "transaction.state.log.num.partitions=6",
)


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *SETTINGS) as cluster:
        yield cluster


def create(cluster: BrokerCluster, name: str, partitions: int) -> None:
    topic = NewTopic(name, partitions, 3, config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})  # It must outlive what it was asked.
    (made,) = admin.create_topics([topic]).values()
    made.result(PATIENCE_SECONDS)


def read(cluster: BrokerCluster, name: str, partitions: int) -> list[bytes]:
    """Return the committed values of a topic, from its leaders, up to the last stable offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": uuid4().hex,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(name, index, 0) for index in range(partitions)])
    values: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ended) < partitions:
        assert time.monotonic() < deadline
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return values


def test_markers_reach_the_partitions_that_others_lead(cluster: BrokerCluster) -> None:
    """Nine partitions on three brokers, ids whose coordinators are spread over all of them."""
    create(cluster, "spread", 9)
    expected: list[bytes] = []
    for number in range(6):
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": f"id-{number}", "linger.ms": 0}
        )
        producer.init_transactions(PATIENCE_SECONDS)
        for turn in range(4):
            producer.begin_transaction()
            values = [b"%d-%d-%d" % (number, turn, index) for index in range(9)]
            for index, value in enumerate(values):
                producer.produce("spread", value, partition=index)
            if turn % 2:
                producer.flush(PATIENCE_SECONDS)
                producer.abort_transaction(PATIENCE_SECONDS)
            else:
                producer.commit_transaction(PATIENCE_SECONDS)
                expected += values
    wait_until(lambda: len(read(cluster, "spread", 9)) >= len(expected), "all markers", DEADLINE_S)
    assert sorted(read(cluster, "spread", 9)) == sorted(expected)


def test_an_open_transaction_times_out_on_the_next_coordinator(cluster: BrokerCluster) -> None:
    create(cluster, "open", 3)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": "left",
            "transaction.timeout.ms": 3_000,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    for index in range(3):
        producer.produce("open", b"never", partition=index)
    producer.flush(PATIENCE_SECONDS)
    for broker in cluster.brokers.values():  # One after the other: each coordinator dies, whichever it is.
        broker.restart(signal.SIGKILL)
    after = Producer({"bootstrap.servers": cluster.bootstrap})
    for index in range(3):
        after.produce("open", b"after", partition=index)
    assert after.flush(PATIENCE_SECONDS) == 0
    wait_until(lambda: read(cluster, "open", 3) == [b"after"] * 3, "the abort", DEADLINE_S)


@pytest.mark.parametrize("library", ["confluent-kafka", "kohort"])
def test_transactions_are_atomic_when_any_broker_dies(cluster: BrokerCluster, library: str) -> None:
    print(f"SEED={SEED}")  # noqa: T201
    dice = random.Random(SEED)
    create(cluster, TOPIC, 2)
    bootstrap = cluster.bootstrap
    readers = [Reader(bootstrap, index) for index in (0, 1)]
    counter: subprocess.Popen[bytes] = started(bootstrap, library)
    try:
        wait_until(lambda: bool(readers[0].numbers), "the first number", DEADLINE_S)
        for _ in range(ROUNDS):
            time.sleep(dice.uniform(*LIFE_S))
            victim = dice.choice(("broker", "broker", "counter", "both"))
            if victim != "broker":
                counter.kill()
                counter.wait()
            if victim != "counter":
                seen = len(readers[0].numbers)
                dice.choice(list(cluster.brokers.values())).restart(signal.SIGKILL)
            if victim != "broker":
                counter = started(bootstrap, library)
            if victim != "counter":
                wait_until(
                    lambda seen=seen: len(readers[0].numbers) > seen, "a number after a death", DEADLINE_S
                )
        counter.kill()
        counter.wait()
        count = committed(bootstrap)
        for reader in readers:
            wait_until(lambda reader=reader: len(reader.numbers) >= count, "all numbers", DEADLINE_S)
        time.sleep(0.3)  # Should anything come twice, it would come now.
    finally:
        if counter.poll() is None:
            counter.kill()
            counter.wait()
        for reader in readers:
            reader.stop()
    assert count > 0
    for reader in readers:
        assert reader.numbers == list(range(count)), SEED
