"""Steps that tests of the consumer share: write numbers, read them, poll, be told, have a neighbour."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kohort.client import Consumer, ConsumerRecord, Producer, RebalanceListener, TopicPartition
from kohort.client.config import ConsumerOptions
from tests.interop.waiting import wait_until

MakeTopic = Callable[[int], str]


def produce(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(topic, value=b"%d" % number, key=b"%d" % (number % 10))


def read(consumer: Consumer, count: int, within_s: float = 20) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + within_s
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(timeout_ms=200)
    return records


def numbers(records: list[ConsumerRecord]) -> list[int]:
    return sorted(int(each.value or b"-1") for each in records)


class Diary(RebalanceListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, tuple[int, ...]]] = []

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.lines.append(("assigned", tuple(each.partition for each in partitions)))

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.lines.append(("revoked", tuple(each.partition for each in partitions)))

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.lines.append(("lost", tuple(each.partition for each in partitions)))

    @property
    def events(self) -> list[tuple[str, int]]:
        """What it was told, and of how many partitions."""
        return [(what, len(partitions)) for what, partitions in self.lines]


class Neighbour:
    """Another member, polled by a thread of its own."""

    def __init__(self, topic: str, options: ConsumerOptions) -> None:
        self.consumer = Consumer(topic, **options)
        self.count = 0  # Of the records that it got.
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            self.count += len(self.consumer.poll(timeout_ms=20))
        self.consumer.close()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()


LONG_MS = 3_600_000
"""A timeout that no test waits for: what ends nevertheless has not waited for it."""


def has_ended(client: Consumer) -> bool:
    """Whether the client's thread has ended. A close gives up to wait for that after ten seconds."""
    return not client._loop._thread.is_alive()


def poll_until(consumer: Consumer, condition: Callable[[], object], what: str) -> None:
    def polled() -> object:
        consumer.poll(timeout_ms=20)
        return condition()

    wait_until(polled, what)
