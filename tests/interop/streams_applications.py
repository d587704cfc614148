"""Applications of Kafka Streams as processes: started, closed and killed; what they read and write."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from kohort.client import Consumer, Producer, TopicPartition
from tests.interop.kafka_tools import java_command
from tests.interop.waiting import wait_until

PATIENCE_S = 120.0
SETTINGS = (
    "group.streams.session.timeout.ms=6000",
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.heartbeat.interval.ms=500",
    "group.streams.min.heartbeat.interval.ms=500",
    "group.streams.initial.rebalance.delay.ms=200",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
)
"""What lets a broker put dead members out soon."""
WORDS = ("one", "two", "three", "five", "eight")
PARTITIONS = 3


class StreamsApplication:
    """One process of `StreamsApplication.java`; its folder keeps its state over its deaths."""

    def __init__(self, bootstrap: str, group: str, folder: Path, *what: str) -> None:
        """`what` is its kind, its topics, and settings besides. Raises: MissingTool."""
        folder.mkdir(exist_ok=True)
        self._command = java_command(
            "streams", "StreamsApplication", bootstrap, group, str(folder / "state"), *what
        )
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def states(self) -> list[str]:
        """The states that it has come to in this life."""
        text = self._log.read_text()
        return text.rsplit("--\n", 1)[-1].split()

    def start(self) -> None:
        with self._log.open("ab") as log:
            log.write(b"--\n")
            log.flush()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.DEVNULL
            )

    def wait_for(self, state: str) -> None:
        """Return when it has come to that state in this life."""
        wait_until(lambda: state in self.states, f"{state}, after {self.states}", PATIENCE_S)

    def close(self) -> None:
        """Tell it to end, and return when it has: its members leave their group."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        assert self._process.wait(PATIENCE_S) == 0

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()


def send(bootstrap: str, topic: str, *records: tuple[str | None, str]) -> None:
    """Write the records, each once; those without a key to the partitions in turn."""
    with Producer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        for number, (key, value) in enumerate(records):
            if key is None:
                producer.send(topic, value.encode(), partition=number % PARTITIONS)
            else:
                producer.send(topic, value.encode(), key=key.encode())


class Results:
    """What is committed to a topic, as it comes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.records: list[tuple[str, str]] = []
        self._consumer = Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        self._consumer.assign(*(TopicPartition(topic, index) for index in range(PARTITIONS)))
        self._consumer.seek_to_beginning()

    def wait_for(self, count: int) -> None:
        """Return when so many have come."""
        wait_until(lambda: self._has(count), f"{count} results", PATIENCE_S)

    def _has(self, count: int) -> bool:
        for each in self._consumer.poll(timeout_ms=200):
            self.records.append(((each.key or b"").decode(), (each.value or b"").decode()))
        return len(self.records) >= count

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()


class Counted:
    """Lines for a word count, from `lines` to `counts`, and what has to come of them."""

    def __init__(self, bootstrap: Callable[[], str]) -> None:
        self._bootstrap = bootstrap
        self._results = Results(bootstrap(), "counts")
        self._written = 0

    def write(self) -> None:
        """Write some, and return when they are counted."""
        send(self._bootstrap(), "lines", *((None, " ".join(WORDS)) for _ in range(30)))
        self._written += 30 * len(WORDS)
        self._results.wait_for(self._written)

    def check(self) -> None:
        """Each word was counted once a line, and no count was told twice."""
        self._results.close()
        by_word: dict[str, list[int]] = defaultdict(list)
        for word, count in self._results.records:
            by_word[word].append(int(count))
        assert dict(by_word) == {word: list(range(1, self._written // len(WORDS) + 1)) for word in WORDS}
