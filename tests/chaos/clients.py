"""Clients that go on whatever happens, each in a thread of its own, and tell the history what they hear."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import aiokafka
import aiokafka.errors
import kafka
from confluent_kafka import Consumer, KafkaException, Producer

from kohort.client import Consumer as KohortConsumer
from kohort.client import KohortError
from tests.chaos.history import History
from tests.interop.kafka_tools import java_command

TOPIC = "air"
PARTITIONS = 3
POLL_SECONDS = 0.2
COMMIT_SECONDS = 0.25
SESSION_MS = 30_000
SEND_SECONDS = 0.002
END_SECONDS = 60.0
LINES_KEPT = 400
"""Of what a client's library has logged: who does not end shows them."""


class Worker(threading.Thread):
    """Takes one turn after another until it is stopped; `failure` is what it did not survive."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.failure: BaseException | None = None
        self.doing = ""
        """Which call of its library it is in."""
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)
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

    def stop(self, seconds: float = END_SECONDS) -> None:
        """Return when it has come to its end."""
        self._stopped.set()
        self.join(seconds)
        lines = "\n".join(self.lines)
        assert not self.is_alive(), f"{self.name} does not end: {self.doing}\n{lines}"
        assert self.failure is None, f"{self.name}: {self.failure!r}"


class Writer(Worker):
    """An idempotent producer with acks=all."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__("writer")
        self.errors: list[str] = []
        self.acknowledged = Counter[int]()
        """How many records of each partition were."""
        self._history = history
        self._count = 0
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 5}
        settings |= {"debug": "broker,msg,eos"}
        self._producer = Producer(settings, logger=_logger(self.lines))

    def turn(self) -> None:
        partition = self._count % PARTITIONS
        self._producer.produce(TOPIC, b"%d" % self._count, partition=partition, on_delivery=self._delivered)
        self._count += 1
        self._producer.poll(SEND_SECONDS)

    def finish(self) -> None:
        self.doing = "flush"
        assert self._producer.flush(END_SECONDS / 2) == 0

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self._history.acknowledge(message.value(), message.partition(), message.offset())
            self.acknowledged[message.partition()] += 1


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
        self.doing = "poll"
        for partition, offset, value in self.poll():
            self._history.read(self.name, partition, offset, value)
            self._next[partition] = offset + 1
        if self._next and time.monotonic() - self._committed_at > COMMIT_SECONDS:
            self._committed_at = time.monotonic()
            self.doing = "commit"
            self._heard_of_commit(dict(self._next), is_taken=self.commit())

    def _heard_of_commit(self, offsets: dict[int, int], *, is_taken: bool) -> None:
        if is_taken:
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

    def finish(self) -> None:
        self.doing = "close"
        self.close()

    def close(self) -> None:
        """Leave the group."""
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
                "debug": "cgrp,broker",
            },
            logger=_logger(self.lines),
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

    def close(self) -> None:
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

    def close(self) -> None:
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

    def close(self) -> None:
        self._consumer.close()


class AiokafkaMember(Member, aiokafka.ConsumerRebalanceListener):
    """By aiokafka, whose loop runs in this thread while it polls and commits."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__("aiokafka", history)
        self._servers = bootstrap
        self._loop = asyncio.new_event_loop()
        self._consumer: aiokafka.AIOKafkaConsumer | None = None

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Nothing is to be done: the group has no other member."""

    async def on_partitions_assigned(self, assigned: object) -> None:
        """A rebalance has come to its end."""
        self._history.assigned(self.name)

    async def _begun(self) -> aiokafka.AIOKafkaConsumer:
        if self._consumer is None:
            self._consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self._servers,
                group_id=self.name,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                metadata_max_age_ms=2_000,
            )
            self._consumer.subscribe([TOPIC], listener=self)
            await self._consumer.start()
        return self._consumer

    def poll(self) -> list[tuple[int, int, bytes]]:
        return self._loop.run_until_complete(self._polled())

    async def _polled(self) -> list[tuple[int, int, bytes]]:
        found = await (await self._begun()).getmany(timeout_ms=int(POLL_SECONDS * 1_000))
        return [(each.partition, each.offset, each.value) for records in found.values() for each in records]

    def commit(self) -> bool:
        assert self._consumer is not None
        try:
            self._loop.run_until_complete(self._consumer.commit())
        except aiokafka.errors.KafkaError:
            return False
        return True

    def close(self) -> None:
        if self._consumer is not None:
            self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()


class JavaMember(Member):
    """By Kafka's own client, in a process that tells what it does."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__("java", history)
        session_ms, commit_ms = str(SESSION_MS), str(int(COMMIT_SECONDS * 1_000))
        command = java_command("clients", "Committing", bootstrap, self.name, TOPIC, session_ms, commit_ms)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def turn(self) -> None:
        self.doing = "read what it says"
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"it has ended with {self._process.wait()}: {list(self.lines)}"
        self._hear(line.rstrip("\n"))

    def _hear(self, line: str) -> None:
        what, *words = line.split(" ")
        if what == "record":
            self._history.read(self.name, int(words[0]), int(words[1]), words[2].encode())
        elif what == "assigned":
            self._history.assigned(self.name)
        elif what == "committed":
            offsets = {
                int(partition): int(offset) for partition, offset in (each.split(":") for each in words)
            }
            self._heard_of_commit(offsets, is_taken=True)
        elif what != "turn":
            self.lines.append(line)
            if what == "refused":
                self._heard_of_commit({}, is_taken=False)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        for line in self._process.stdout:
            self._hear(line.rstrip("\n"))
        assert self._process.wait(END_SECONDS) == 0, list(self.lines)
        assert self.lines[-1] == "closed"
        self._process.stdout.close()


class _Keeping(logging.Handler):
    """Keeps the newest lines."""

    def __init__(self, lines: deque[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self._lines.append(f"{time.strftime('%X')} {record.getMessage()}")


def _logger(lines: deque[str]) -> logging.Logger:
    """Return what a library may log to, and nobody else reads."""
    logger = logging.Logger("chaos", logging.DEBUG)
    logger.addHandler(_Keeping(lines))
    return logger


MEMBERS: tuple[Callable[[str, History], Member], ...] = (
    ConfluentMember,
    KohortMember,
    KafkaPythonMember,
    AiokafkaMember,
    JavaMember,
)
