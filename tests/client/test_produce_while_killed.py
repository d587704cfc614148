"""The broker is killed again and again while a producer writes: what is written, how often, in which order.

`make test` kills kohort a few times. ROUNDS=100 kills it more often, SEED=n repeats a run's moments, and
KOHORT_TEST_KILL_KAFKA=1 kills Apache Kafka instead, which needs Java and takes longer to come back.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kohort.client import Admin, Consumer, Delivery, NewTopic, Producer, TopicPartition
from kohort.client.config import ProducerOptions
from tests.client.conftest import QUICK
from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.interop.broker_process import BrokerProcess

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SEED = int(os.environ.get("SEED") or random.randrange(2**32))
PARTITIONS = 3
LIFE_S = (0.2, 0.7)
BURST, PAUSE_S = 200, 0.005


class Mortal(Protocol):
    """A broker that can be killed and comes back with its data, on the same port."""

    bootstrap: str

    def kill(self) -> None: ...

    def start(self) -> None: ...


class _Kafka:
    def __init__(self, folder: Path) -> None:
        self._broker = ApacheKafka(folder)
        self._broker.start()
        self.bootstrap = f"127.0.0.1:{self._broker.address[1]}"

    def kill(self) -> None:
        self._broker.stop()

    def start(self) -> None:
        self._broker.restart()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Mortal]:
    broker: Mortal
    if "KOHORT_TEST_KILL_KAFKA" in os.environ:
        try:
            broker = _Kafka(tmp_path)
        except MissingTool as missing:
            pytest.skip(str(missing))
    else:
        process = BrokerProcess(tmp_path, *QUICK)
        process.start()
        broker = process
    yield broker
    broker.kill()


class Writer:
    """A thread that writes numbers in bursts, in order for each partition, until it is stopped."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.deliveries: list[Delivery] = []
        self._producer = producer
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for _ in range(BURST):
                number = len(self.deliveries)
                sent = self._producer.send(self._topic, b"%d" % number, partition=number % PARTITIONS)
                self.deliveries.append(sent)
            time.sleep(PAUSE_S)


def write_while_killing(broker: Mortal, rounds: int, options: ProducerOptions) -> list[Delivery]:
    """Return the delivery of each number, after everything has been sent or given up."""
    moments = random.Random(SEED)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic("numbers", partitions=PARTITIONS))
    quick: ProducerOptions = {"retry_backoff_ms": 20, "reconnect_backoff_max_ms": 100, "linger_ms": 1}
    # Where the broker takes longer to come back than it lives, 32 MB would wait past the delivery timeout.
    quick["buffer_memory"] = 2 * 1024 * 1024
    with Producer(bootstrap_servers=broker.bootstrap, **quick, **options) as producer:
        writer = Writer(producer, "numbers")
        for _ in range(rounds):
            time.sleep(moments.uniform(*LIFE_S))
            broker.kill()
            broker.start()
        time.sleep(LIFE_S[1])
        writer.stop()
        producer.flush()
    return writer.deliveries


def read_all(bootstrap: str) -> dict[int, list[int]]:
    """Return the numbers of each partition in their order, every offset of them."""
    partitions = [TopicPartition("numbers", number) for number in range(PARTITIONS)]
    found: dict[int, list[int]] = defaultdict(list)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign(*partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            for record in consumer.poll(timeout_ms=1_000):
                assert record.offset == len(found[record.partition])
                found[record.partition].append(int(record.value or b"-1"))
    return found


@pytest.mark.requirement("R25", "R26")
def test_an_idempotent_producer_writes_each_record_once_and_in_order(mortal: Mortal) -> None:
    deliveries = write_while_killing(mortal, ROUNDS, {})
    found = read_all(mortal.bootstrap)
    written = [each.result() for each in deliveries]
    assert len(written) > ROUNDS * BURST, f"SEED={SEED}"
    for partition in range(PARTITIONS):
        expected = list(range(partition, len(written), PARTITIONS))
        assert found[partition] == expected, f"SEED={SEED}: lost, doubled or out of order"
    for number, metadata in enumerate(written):
        where = (metadata.partition, metadata.offset)
        assert where == (number % PARTITIONS, number // PARTITIONS), f"SEED={SEED}: {number} was told {where}"


@pytest.mark.requirement("R26")
def test_without_idempotence_nothing_is_lost_and_some_can_be_duplicated(mortal: Mortal) -> None:
    deliveries = write_while_killing(mortal, 1, {"enable_idempotence": False})
    found = read_all(mortal.bootstrap)
    for each in deliveries:
        each.result()
    numbers = {number for each in found.values() for number in each}
    assert numbers == set(range(len(deliveries))), f"SEED={SEED}"


@pytest.mark.requirement("R26")
def test_without_acknowledgements_nothing_is_duplicated_and_some_can_be_lost(mortal: Mortal) -> None:
    write_while_killing(mortal, 1, {"acks": 0})
    counts = Counter(number for each in read_all(mortal.bootstrap).values() for number in each)
    assert set(counts.values()) == {1}, f"SEED={SEED}"
