"""Clients that go on whatever happens, each in a thread of its own, and tell the history what they hear."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import kafka
from confluent_kafka import Consumer, KafkaException, Producer

from kohort.client import Consumer as KohortConsumer
from kohort.client import KohortError
from tests.chaos.history import History

TOPIC = "air"
PARTITIONS = 3
POLL_SECONDS = 0.2
COMMIT_SECONDS = 0.25
SESSION_MS = 30_000
SEND_SECONDS = 0.002


class Worker(threading.Thread):
    """Takes one turn after another until it is stopped; `failure` is what it did not survive."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self._stopped = threading.Event()

    def run(self) -> None:
        """The thread's own."""
        try:
            while not self._stopped.is_set():
                self.turn()
            self.finish()
        except BaseException as failure:  # Told by `stop`, in the thread of the test.
            self.failure = failure
            raise

    def turn(self) -> None:
        """Do a little."""
        raise NotImplementedError

    def finish(self) -> None:
        """Do what is left."""

    def stop(self, seconds: float = 60.0) -> None:
        """Return when it has come to its end."""
        self._stopped.set()
        self.join(seconds)
        assert not self.is_alive(), f"{self.name} does not end"
        assert self.failure is None, f"{self.name}: {self.failure!r}"


class Writer(Worker):
    """An idempotent producer with acks=all."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__("writer")
        self.errors: list[str] = []
        self._history = history
        self._count = 0
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
        self._producer = Producer({**settings, "log_level": 0})

    def turn(self) -> None:
        partition = self._count % PARTITIONS
        self._producer.produce(TOPIC, b"%d" % self._count, partition=partition, on_delivery=self._delivered)
        self._count += 1
        self._producer.poll(SEND_SECONDS)

    def finish(self) -> None:
        assert self._producer.flush(60) == 0

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self._history.acknowledge(message.value(), message.partition(), message.offset())


class Member(Worker):
    """The one member of a group of its own."""

    def __init__(self, name: str, history: History) -> None:
        super().__init__(name)
        self.refused = 0
        self.commits = 0
        self._history = history
        self._next: dict[int, int] = {}
        self._committed_at = 0.0

    def turn(self) -> None:
        for partition, offset, value in self.poll():
            self._history.read(self.name, partition, offset, value)
            self._next[partition] = offset + 1
        if self._next and time.monotonic() - self._committed_at > COMMIT_SECONDS:
            self._committed_at = time.monotonic()
            offsets = dict(self._next)
            if self.commit():
                self.commits += 1
                self._history.commit(self.name, offsets)
            else:
                self.refused += 1  # It is tried again with the next.

    def poll(self) -> list[tuple[int, int, bytes]]:
        """Return partition, offset and value of what came."""
        raise NotImplementedError

    def commit(self) -> bool:
        """Commit all that was handed out; return whether that was acknowledged."""
        raise NotImplementedError


class ConfluentMember(Member):
    """By librdkafka."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__("confluent-kafka", history)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([TOPIC], on_assign=lambda *_: history.assigned(self.name))

    def poll(self) -> list[tuple[int, int, bytes]]:
        messages = self._consumer.consume(500, POLL_SECONDS)
        return [(each.partition(), each.offset(), each.value()) for each in messages if each.error() is None]

    def commit(self) -> bool:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException:
            return False
        return True

    def finish(self) -> None:
        self._consumer.close()


class KohortMember(Member):
    """By kohort's own client."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__("kohort", history)
        self._generations: set[int] = set()
        self._consumer = KohortConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=self.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
        )

    def poll(self) -> list[tuple[int, int, bytes]]:
        found = self._consumer.poll(timeout_ms=int(POLL_SECONDS * 1_000))
        generation_id = self._consumer.group_metadata().generation_id
        if generation_id >= 0 and generation_id not in self._generations:
            self._generations.add(generation_id)
            self._history.assigned(self.name)
        return [(each.partition, each.offset, each.value) for each in found]

    def commit(self) -> bool:
        try:
            self._consumer.commit()
        except KohortError:
            return False
        return True

    def finish(self) -> None:
        self._consumer.close()


class KafkaPythonMember(Member, kafka.ConsumerRebalanceListener):
    """By kafka-python."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__("kafka-python", history)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            group_id=self.name,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            metadata_max_age_ms=2_000,
        )
        self._consumer.subscribe([TOPIC], listener=self)

    def on_partitions_revoked(self, revoked: object) -> None:
        """Nothing is to be done: the group has no other member."""

    def on_partitions_assigned(self, assigned: object) -> None:
        """A rebalance has come to its end."""
        self._history.assigned(self.name)

    def poll(self) -> list[tuple[int, int, bytes]]:
        found = self._consumer.poll(timeout_ms=int(POLL_SECONDS * 1_000))
        return [(each.partition, each.offset, each.value) for records in found.values() for each in records]

    def commit(self) -> bool:
        try:
            self._consumer.commit()
        except kafka.errors.KafkaError:
            return False
        return True

    def finish(self) -> None:
        self._consumer.close()


MEMBERS: tuple[Callable[[str, History], Member], ...] = (ConfluentMember, KohortMember, KafkaPythonMember)
