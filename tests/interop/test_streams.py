"""Kafka Streams, unmodified, with exactly_once_v2: it counts words while it and the broker are killed.

Each count that it commits is read: of every word that is 1, 2, 3 and so on, none missing, none twice.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool, java_command
from tests.interop.waiting import wait_until
from tests.repetitions import only_by_night

ROUNDS = int(os.environ.get("ROUNDS", "4"))
SEED = int(os.environ.get("SEED") or random.randrange(2**32))
LINES, COUNTS, PARTITIONS = "lines", "counts", 2
WORDS = ("one", "two", "three", "five", "eight")
WORDS_IN_A_LINE = 6
LINES_A_ROUND = 200
LIFE_S = (2.0, 6.0)
DEADLINE_S = 120.0


class Counts:
    """Reads what is committed of the counts: by word, in their order."""

    def __init__(self, bootstrap: str) -> None:
        self.by_word: dict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        places = [TopicPartition(COUNTS, index) for index in range(PARTITIONS)]
        self._consumer.assign(*places)
        self._consumer.seek_to_beginning()

    def are(self, wanted: Counter[str]) -> bool:
        """Whether as many counts were read as words were written."""
        for each in self._consumer.poll(timeout_ms=200):
            self.by_word[(each.key or b"").decode()].append(int(each.value or b""))
        return sum(map(len, self.by_word.values())) >= wanted.total()

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(
        tmp_path, "offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2"
    )
    broker.start()
    yield broker
    broker.stop()


def write_lines(bootstrap: str, dice: random.Random) -> Counter[str]:
    """Write lines, and return how often each word is in them."""
    words: Counter[str] = Counter()
    with Producer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        for _ in range(LINES_A_ROUND):
            line = dice.choices(WORDS, k=WORDS_IN_A_LINE)
            words.update(line)
            producer.send(LINES, " ".join(line).encode(), partition=dice.randrange(PARTITIONS))
    return words


@only_by_night
def test_words_are_counted_exactly_once_despite_kills(broker: BrokerProcess, tmp_path: Path) -> None:
    print(f"SEED={SEED}")  # noqa: T201
    dice = random.Random(SEED)
    try:
        command = java_command(
            "streams", "WordCount", broker.bootstrap, LINES, COUNTS, str(tmp_path / "state")
        )
    except MissingTool as missing:
        pytest.skip(str(missing))
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic(LINES, partitions=PARTITIONS), NewTopic(COUNTS, partitions=PARTITIONS))
    written: Counter[str] = Counter()
    counts = Counts(broker.bootstrap)
    with (tmp_path / "streams.log").open("wb") as log:
        streams = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for _ in range(ROUNDS):
                written += write_lines(broker.bootstrap, dice)
                time.sleep(dice.uniform(*LIFE_S))
                victim = dice.choice(("broker", "streams", "both"))
                if victim != "broker":
                    streams.kill()
                    streams.wait()
                if victim != "streams":
                    broker.restart(signal.SIGKILL)
                if victim != "broker":
                    streams = subprocess.Popen(command, stdout=log, stderr=log)
            written += write_lines(broker.bootstrap, dice)
            wait_until(lambda: counts.are(written), "every word counted", DEADLINE_S)
            counts.are(written)  # Should anything be counted twice, it would be read now.
        finally:
            streams.kill()
            streams.wait()
            counts.close()
    assert dict(counts.by_word) == {word: list(range(1, count + 1)) for word, count in written.items()}, SEED
