"""Clients that must not notice what happens to a cluster, and questions about its state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, Message, Producer

from kohort.client import Admin, NewTopic
from tests.cluster.broker_cluster import BrokerCluster

PATIENCE_SECONDS = 300
SETTINGS = (
    "broker.session.timeout.ms=60000",  # What is noticed is not noticed by a lease.
    "offsets.topic.replication.factor=3",
    "offsets.topic.num.partitions=1",
    "min.insync.replicas=2",
)
TOPIC, PARTITIONS = "air", 3


def create_topic(cluster: BrokerCluster) -> None:
    """Create the topic that the traffic needs, on three brokers."""
    with admin(cluster) as asked:
        asked.create_topics(NewTopic(TOPIC, partitions=PARTITIONS, replication_factor=3))


def admin(cluster: BrokerCluster) -> Admin:
    return Admin(bootstrap_servers=cluster.bootstrap.split(","))


class Traffic:
    """A producer that numbers its records, and a member of a group that reads and commits them."""

    def __init__(self, bootstrap: str) -> None:
        self.errors: list[KafkaError] = []
        self.delivered = 0
        self.read: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self.assignments = 0
        self._sent = 0
        self._stops = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "acks": "all"}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([TOPIC], on_assign=self._assigned)
        self._threads = [threading.Thread(target=each) for each in (self._produce, self._consume)]

    def __enter__(self) -> Traffic:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        for each in self._threads:
            each.join(PATIENCE_SECONDS)
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, _partitions: object) -> None:
        self.assignments += 1

    def _told(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.delivered += 1

    def _produce(self) -> None:
        while not self._stops.is_set():
            self._producer.produce(
                TOPIC, str(self._sent), partition=self._sent % PARTITIONS, on_delivery=self._told
            )
            self._sent += 1
            self._producer.poll(0.005)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def _consume(self) -> None:
        deadline = time.monotonic() + 10 * PATIENCE_SECONDS
        while not self._stops.is_set() or sum(map(len, self.read.values())) < self._sent:
            assert time.monotonic() < deadline
            message = self._consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert value is not None
            self.read[partition].append(int(value))
            self._consumer.commit(message)

    def check(self) -> None:
        """Everything was delivered once, in order, and the group was never rebalanced after its start."""
        assert self.errors == []
        assert self.delivered == self._sent
        for partition, values in self.read.items():
            assert values == list(range(partition, self._sent, PARTITIONS))
        assert self.assignments == 1


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_whole(asked: Admin) -> bool:
    names = asked.list_topics(include_internal=True)
    found = asked.describe_topic_partitions(*names).values()
    return all(len(each.isr) == len(each.replicas) for topic in found for each in topic.partitions)
