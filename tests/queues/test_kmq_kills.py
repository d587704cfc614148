"""Workers, trackers and the broker are killed at random: each record is done or dead, none comes too often.

ROUNDS kills (4 unless told), the moments by SEED.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
import trio

from kohort.client import Admin, ConsumerRecord, NewTopic, Producer
from kohort.queues.kmq import Queue, QueueStats, ensure_topics, queue_stats
from kohort.queues.kmq.copies import DEAD_LETTER_OF, FIRST_OFFSET
from kohort.queues.kmq.markers import decode_key
from tests.differential.apache_kafka import ApacheKafka
from tests.interop.broker_process import BrokerProcess
from tests.queues.kmq_worker import NEVER_DONE_EVERY, options
from tests.queues.test_kmq import read_all

ROOT = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("ROUNDS", "4"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
PARTITIONS, RECORDS_A_ROUND = 2, 60
TIMEOUT_MS = 3_000
STANDSTILL_S = 90.0
MOST = 4  # Deliveries of a record with the original's limit of three redeliveries.


class Scene:
    """A queue with two workers and two trackers, all of them processes."""

    def __init__(self, broker: BrokerProcess | ApacheKafka, folder: Path) -> None:
        self.queue = Queue("jobs", message_timeout_ms=TIMEOUT_MS)
        self.kills: Counter[str] = Counter()
        self._broker = broker
        self._random = Random(SEED)
        self._journal = folder / "journal"
        self._journal.touch()
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._sent = 0

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self._broker.address)

    def open(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics(NewTopic(self.queue.topic, partitions=PARTITIONS))
        trio.run(lambda: ensure_topics(self.queue, bootstrap_servers=self.bootstrap))
        self._processes = [self._start(role) for role in ("worker", "worker", "tracker", "tracker")]

    def play(self) -> None:
        """Send some records, let some time pass, kill somebody, and start him again."""
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(RECORDS_A_ROUND):
                partition = number % PARTITIONS
                producer.send(self.queue.topic, b"%d" % (self._sent + number), partition=partition)
        self._sent += RECORDS_A_ROUND
        time.sleep(self._random.uniform(0.05, 1.5))
        if self._random.random() < 0.25:
            self._kill_broker()
        else:
            victim = self._random.randrange(len(self._processes))
            role, process = self._processes[victim]
            self._end(process)
            self.kills[role] += 1
            time.sleep(self._random.uniform(0.0, 0.5))
            self._processes[victim] = self._start(role)

    def _kill_broker(self) -> None:
        self.kills["broker"] += 1
        if isinstance(self._broker, BrokerProcess):
            self._broker.kill()
            self._broker.start()
        else:
            self._broker.stop()
            self._broker.restart()

    def settle(self) -> QueueStats:
        """Return how the queue stands once nothing is open any more."""
        deadline_s = time.monotonic() + STANDSTILL_S
        while time.monotonic() < deadline_s:
            stats = trio.run(lambda: queue_stats(self.queue, **options(self.bootstrap)))
            if not stats.total.unread and not stats.total.open:
                return stats
            time.sleep(0.5)
        raise AssertionError(f"not settled: {stats}")

    def dead_letters(self) -> set[tuple[int, int]]:
        """Return partition and first offset of each record that is dead."""
        letters = trio.run(read_all, self.queue.dead_letters_topic, options(self.bootstrap))
        places = ((decode_key(each.header(DEAD_LETTER_OF)), each) for each in letters)
        return {(place.partition, first_offset_of_dead(place.offset, each)) for place, each in places}

    def close(self) -> None:
        for _, process in self._processes:
            self._end(process)

    def journal(self, what: str) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        for line in self._journal.read_text().splitlines():
            word, partition, offset = line.split()
            if word == what:
                found[int(partition), int(offset)] += 1
        return found

    def _start(self, role: str) -> tuple[str, subprocess.Popen[bytes]]:
        arguments = (role, self.bootstrap, self.queue.topic, str(TIMEOUT_MS), str(self._journal))
        command = [sys.executable, "-m", "tests.queues.kmq_worker", *arguments]
        log = self._journal.with_name(f"{role}.log").open("ab")
        with log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, cwd=ROOT)
        return role, process

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def first_offset_of_dead(offset: int, letter: ConsumerRecord) -> int:
    """Return where the record stood at its first delivery: the copy that died may be another one."""
    found = letter.header(FIRST_OFFSET)
    return offset if found is None else int.from_bytes(found, "big")


@pytest.fixture
def scene(mortal_broker: BrokerProcess | ApacheKafka, tmp_path: Path) -> Iterator[Scene]:
    found = Scene(mortal_broker, tmp_path)
    yield found
    found.close()


def test_each_record_is_done_or_dead_and_none_comes_too_often(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.open()
    for _ in range(ROUNDS):
        scene.play()
    stats = scene.settle()
    given, done = scene.journal("given"), scene.journal("done")
    with capsys.disabled():
        sys.stdout.write(
            f"\nkilled: {dict(scene.kills)}; {len(given)} records, {sum(given.values())} deliveries,"
            f" {stats.dead_letters} dead letters (SEED={SEED})\n"
        )
    firsts = {key for key in given if key in done or key[1] % NEVER_DONE_EVERY == 0}
    assert firsts == set(given), "given and neither done nor dead"
    assert sum(1 for _ in given) == ROUNDS * RECORDS_A_ROUND
    assert max(given.values()) <= MOST, given.most_common(5)
    never = {key for key in given if key not in done}
    assert never
    assert never <= scene.dead_letters(), "neither done nor dead"
