"""A broker, a stream of records and two readers, any of which can be killed at any moment."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from random import Random

from kohort.client import Admin, Consumer, KohortError, NewTopic, Producer, TopicPartition
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

ROOT = Path(__file__).parents[2]
TOPIC, GROUP = "stream", "readers"
PARTITIONS = 4
READERS = 2
KEYS = 61
PAUSE_S = 0.1
RECORDS_A_PAUSE = 8  # Bursts: who is killed has several of them in hand.
STANDSTILL_S = 30.0
BROKER_SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a scene: the records that there are, and how often each was processed."""

    words: str
    held: frozenset[Place]
    times: Counter[Place]
    first_times_by_key: dict[tuple[int, str], list[int]]
    """By partition and key, the offsets in the order in which each was first processed."""

    @property
    def lost(self) -> list[Place]:
        """The records that were never processed."""
        return sorted(each for each in self.held if not self.times[each])

    @property
    def twice(self) -> list[Place]:
        """The records that were processed more than once."""
        return sorted(each for each, times in self.times.items() if times > 1)

    def __str__(self) -> str:
        return f"{self.words}: {len(self.held):,} records, {len(self.lost)} lost, {len(self.twice)} twice"


class Scene:
    """Everything of one run; `seed` says who is killed and when, as far as time can be repeated."""

    def __init__(self, mode: str, seed: int, folder: Path) -> None:
        self.broker = BrokerProcess(folder, *BROKER_SETTINGS)
        self.broker_kills = 0
        self.reader_kills = 0
        self._mode = mode
        self._random = Random(seed)
        self._journal = folder / "journal"
        self._journal.touch()
        self._readers: list[subprocess.Popen[bytes]] = []
        self._enough = threading.Event()
        self._producer = threading.Thread(target=self._produce)

    def open(self) -> None:
        """Start everybody, and return when the first records were processed."""
        self.broker.start()
        with Admin(bootstrap_servers=self.broker.bootstrap) as admin:
            admin.create_topics(NewTopic(TOPIC, partitions=PARTITIONS))
        self._producer.start()
        self._readers = [self._start_reader() for _ in range(READERS)]
        wait_until(self.processed, "records are processed")

    def kill_somebody(self) -> None:
        """Let some time pass, kill a reader or, by turns, the broker; start it again some time later."""
        self._enough.wait(self._random.uniform(0.0, 0.8))
        if self.reader_kills > self.broker_kills:
            self.broker.kill()
            self.broker_kills += 1
            self._enough.wait(self._random.uniform(0.0, 0.3))
            self.broker.start()
        else:
            victim = self._random.randrange(READERS)
            self._readers[victim].kill()
            self._end_reader(self._readers[victim])
            self.reader_kills += 1
            self._enough.wait(self._random.uniform(0.0, 0.3))
            self._readers[victim] = self._start_reader()

    def settle(self) -> Outcome:
        """Produce no more, wait until all is committed, end the readers, and return what came of it."""
        self._enough.set()
        self._producer.join()
        held = self._wait_for_commits()
        for reader in self._readers:
            assert reader.stdin is not None
            reader.stdin.close()
            assert reader.wait(STANDSTILL_S) == 0
        words = f"{self._mode}, {self.reader_kills} readers and {self.broker_kills} times the broker killed"
        processed = self.processed()
        first: dict[tuple[int, str], list[int]] = defaultdict(list)
        for (partition, offset), key in dict.fromkeys(processed):
            first[partition, key].append(offset)
        return Outcome(words, held, Counter(place for place, _ in processed), first)

    def _wait_for_commits(self) -> frozenset[Place]:
        """Return the places of all records of the topic once the group has committed the last of them."""
        partitions = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
        with Consumer(bootstrap_servers=self.broker.bootstrap, group_id=GROUP) as onlooker:
            ends = onlooker.end_offsets(*partitions)

            def missing() -> int:
                kept = onlooker.committed(*partitions).items()
                return sum(ends[each] - (0 if found is None else found.offset) for each, found in kept)

            def fewer_than(count: int) -> Callable[[], bool]:
                return lambda: missing() < count

            while left := missing():
                wait_until(fewer_than(left), f"commits of the last {left} records", STANDSTILL_S)
        return frozenset((each.partition, offset) for each in partitions for offset in range(ends[each]))

    def close(self) -> None:
        """End whoever still runs."""
        self._enough.set()
        self._producer.join()
        for reader in self._readers:
            reader.kill()
            self._end_reader(reader)
        self.broker.kill()

    def processed(self) -> list[tuple[Place, str]]:
        """Return what was processed, in order: the place of each record, and its key."""
        found = []
        for line in self._journal.read_text().splitlines():
            partition, offset, key = line.split()
            found.append(((int(partition), int(offset)), key))
        return found

    def _start_reader(self) -> subprocess.Popen[bytes]:
        arguments = (self._mode, self.broker.bootstrap, TOPIC, GROUP, str(self._journal))
        return subprocess.Popen(
            [sys.executable, "-m", "tests.kills.reader", *arguments], stdin=subprocess.PIPE, cwd=ROOT
        )

    @staticmethod
    def _end_reader(reader: subprocess.Popen[bytes]) -> None:
        reader.wait()
        if reader.stdin is not None:
            reader.stdin.close()

    def _produce(self) -> None:
        """Send records steadily; what the topic holds in the end counts, not what was answered."""
        numbers = count()
        with Producer(bootstrap_servers=self.broker.bootstrap) as producer:
            while not self._enough.wait(PAUSE_S):
                for number in islice(numbers, RECORDS_A_PAUSE):
                    try:
                        producer.send(TOPIC, value=b"%d" % number, key=b"%d" % (number % KEYS))
                    except KohortError:  # The broker has been away for too long.
                        continue
