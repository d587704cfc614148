"""Takes every flight in exactly once, while its workers and the broker are killed again and again.

    python examples/flights/exactly_once.py [--kills 10] [--seed 7]

Three workers of one group read the flights, and write each one's arrival delay to another topic: what they
write and how far they have read is one transaction. So a worker that dies leaves nothing half done, and who
goes on in its place begins where its last transaction ended. Whoever reads with `read_committed` finds each
flight once. Exit status 0 if that is so.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

if __name__ == "__main__":  # Run as a file: its siblings are found from the repository's root.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from examples.flights import settings, topic
from examples.flights.broker_process import BrokerProcess
from examples.flights.dataset import FLIGHTS, read_flights
from examples.flights.exactly_once_worker import DELAYS, WorkerProcess
from kohort.client import LATEST, Admin, Consumer, KohortError, NewTopic, TopicPartition

WORKERS = 3
LIFE_SECONDS = (0.5, 2.0)
TOO_LONG_SECONDS = 300.0


class Run:
    """The broker, its workers, and what is left to do."""

    def __init__(self, folder: Path, kills: int, dice: random.Random) -> None:
        self._folder = folder
        self._kills = kills
        self._dice = dice
        self._broker = BrokerProcess(folder)
        self._workers: list[WorkerProcess] = []
        self._deadline_s = time.monotonic() + TOO_LONG_SECONDS

    def run(self) -> bool:
        """Return whether every flight was taken in once."""
        self._broker.start()
        bootstrap = self._broker.bootstrap
        topic.create(bootstrap)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(NewTopic(DELAYS, partitions=settings.PARTITIONS))
        topic.load(bootstrap, read_flights(), lambda some: None)
        say(f"{FLIGHTS:,} flights are in the topic {settings.TOPIC!r}")
        self._workers = [WorkerProcess(number, bootstrap, self._folder) for number in range(WORKERS)]
        for kill in range(self._kills):
            time.sleep(self._dice.uniform(*LIFE_SECONDS))
            self._kill_somebody(kill)
        self._wait_until_all_is_read()
        for worker in self._workers:
            worker.stop()
        return self._check()

    def close(self) -> None:
        """End every process that is still there, whatever happened."""
        for worker in self._workers:
            worker.kill()
        self._broker.stop()

    def _kill_somebody(self, kill: int) -> None:
        victim = self._dice.randrange(WORKERS + 1)
        if victim == WORKERS:
            self._broker.kill()
            self._broker.start()
            say(f"kill {kill + 1}: the broker; it is back")
        else:
            self._workers[victim].kill()
            self._workers[victim] = WorkerProcess(victim, self._broker.bootstrap, self._folder)
            say(f"kill {kill + 1}: worker {victim}; another has its place, and its transactional id")

    def _wait_until_all_is_read(self) -> None:
        latest = {TopicPartition(settings.TOPIC, index): LATEST for index in range(settings.PARTITIONS)}
        with Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            ends = {each: found.offset for each, found in admin.list_offsets(latest).items()}
            while True:
                for worker in self._workers:
                    worker.check()
                try:
                    offsets = admin.list_group_offsets(settings.GROUP)
                except KohortError:
                    offsets = {}  # The last transaction's offsets are not stable yet.
                if all(each in offsets and offsets[each].offset == end for each, end in ends.items() if end):
                    return
                if time.monotonic() > self._deadline_s:
                    raise TimeoutError(f"not everything was read within {TOO_LONG_SECONDS:.0f} s")
                time.sleep(0.2)

    def _check(self) -> bool:
        """Compare what readers of committed records find with the file that it came from."""
        expected: Counter[tuple[int, int | None]] = Counter(
            (each.index, each.arrival_delay) for each in read_flights()
        )
        found: Counter[tuple[int, int | None]] = Counter()
        written = 0
        with Consumer(
            bootstrap_servers=self._broker.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            places = [TopicPartition(DELAYS, index) for index in range(settings.PARTITIONS)]
            consumer.assign(*places)
            ends = consumer.end_offsets(*places)
            while any(consumer.position(each) < end for each, end in ends.items()):
                for record in consumer.poll(timeout_ms=500):
                    index, delay = msgspec.json.decode(record.value or b"")
                    found[index, delay] += 1
            written = sum(ends.values())
        missing = sum((expected - found).values())
        twice = sum((found - expected).values())
        say(f"{sum(found.values()):,} flights were taken in: {missing} are missing, {twice} too many")
        others = written - sum(found.values())
        say(f"{others:,} of {written:,} offsets are markers, or of transactions that were aborted")
        return not missing and not twice


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Return the exit status."""
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10, help="how often somebody is killed (10)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="who, and when")
    options = parser.parse_args()
    say(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="kohort-exactly-once-") as folder:
        run = Run(Path(folder), options.kills, random.Random(options.seed))
        try:
            return 0 if run.run() else 1
        finally:
            run.close()


if __name__ == "__main__":
    sys.exit(main())
