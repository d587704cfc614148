"""What watches the transactional counter: readers of committed records, and the group's offset.

Readers are confluent-kafka's, kohort's own, and Kafka's in Java: each reads one partition over all kills.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Protocol

import confluent_kafka

from kohort.client import Consumer, KohortError, TopicPartition
from tests.crash.transactional_counter import QUICK_TO_RETURN, next_number
from tests.interop.kafka_tools import java_command

TOPIC, GROUP, TRANSACTIONAL_ID = "counted", "counters", "counter"
DEADLINE_S = 60.0


class Watch(Protocol):
    """Who reads one partition's committed records as they come."""

    numbers: list[int]

    def stop(self) -> None:
        """Read no more, and let everything go."""
        ...


class Reader:
    """confluent-kafka's consumer, in a thread."""

    def __init__(self, bootstrap: str, index: int) -> None:
        self.numbers: list[int] = []
        self._stop = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"reader-{index}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                **QUICK_TO_RETURN,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(TOPIC, index, 0)])
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.numbers.append(int(message.value()))  # `never` is no number.

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()


class OwnReader:
    """kohort's consumer, in a thread; after an error it goes on where it was."""

    def __init__(self, bootstrap: str, index: int) -> None:
        self.numbers: list[int] = []
        self._stop = threading.Event()
        self._place = TopicPartition(TOPIC, index)
        self._bootstrap = bootstrap
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with Consumer(bootstrap_servers=self._bootstrap, isolation_level="read_committed") as consumer:
            consumer.assign(self._place)
            consumer.seek(self._place, 0)
            while not self._stop.is_set():
                try:
                    records = consumer.poll(timeout_ms=100)
                except KohortError:
                    continue
                self.numbers += [int(each.value) for each in records]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class JavaReader:
    """Kafka's consumer, in a process of its own. Raises: MissingTool where there is no Java."""

    def __init__(self, bootstrap: str, index: int) -> None:
        self.numbers: list[int] = []
        self._process = subprocess.Popen(
            java_command("clients", "Counter", "read", bootstrap, TOPIC, str(index)), stdout=subprocess.PIPE
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.numbers.append(int(line))

    def stop(self) -> None:
        self._process.kill()
        self._thread.join()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


READERS: dict[str, Callable[[str, int], Watch]] = {
    "confluent-kafka": Reader,
    "kohort": OwnReader,
    "java": JavaReader,
}


def started(bootstrap: str, library: str = "confluent-kafka") -> subprocess.Popen[bytes]:
    """Start a counter. Raises: MissingTool where it is Java's and there is none."""
    arguments = (bootstrap, TOPIC, GROUP, TRANSACTIONAL_ID)
    if library == "java":
        return subprocess.Popen(java_command("clients", "Counter", "count", *arguments))
    command = [sys.executable, "-m", "tests.crash.transactional_counter", library]
    return subprocess.Popen([*command, *arguments])


def committed(bootstrap: str) -> int:
    """Return how far the counter is, once its last transaction has ended: a new producer sees to that."""
    common = {"bootstrap.servers": bootstrap, **QUICK_TO_RETURN}
    producer = confluent_kafka.Producer({**common, "transactional.id": TRANSACTIONAL_ID})
    producer.init_transactions(DEADLINE_S)
    consumer = confluent_kafka.Consumer({**common, "group.id": GROUP})
    try:
        return next_number(consumer, TOPIC)
    finally:
        consumer.close()
