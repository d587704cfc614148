"""Plays many scripts on kohort and on Apache Kafka, and says where they differ.

python -m tests.differential.run [--scripts N] [--first SEED] [--write]

With --write the counts go into docs/compatibility.md. The status is 1 where a difference is not allowed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from tests.differential.apache_kafka import ApacheKafka
from tests.differential.duel import INITIAL_DELAY_MS, Outcome, play
from tests.differential.report import seen, story, summary, write
from tests.differential.script import GROUP_MAX_SIZE, METADATA_LIMIT
from tests.differential.side import Broker
from tests.interop.broker_process import BrokerProcess

SCRIPTS = 500
AT_ONCE = 20
SETTINGS = (
    f"group.initial.rebalance.delay.ms={INITIAL_DELAY_MS}",
    "group.min.session.timeout.ms=500",
    f"group.max.size={GROUP_MAX_SIZE}",
    f"offset.metadata.max.bytes={METADATA_LIMIT}",
    "offsets.topic.num.partitions=4",
    "auto.create.topics.enable=false",
)
IN_ORDER = (
    # What arrives first is handled first, whatever connection it came on.
    "num.network.threads=1",
    "num.io.threads=1",
    "group.coordinator.threads=1",
    "group.coordinator.append.linger.ms=0",
)


@contextmanager
def kohort(folder: Path, *settings: str) -> Iterator[Broker]:
    """Give a kohort in a process of its own; later settings win."""
    process = BrokerProcess(folder, *SETTINGS, *settings)
    try:
        process.start()
        yield Broker("kohort", process.address)
    finally:
        process.stop()


@contextmanager
def apache_kafka(folder: Path) -> Iterator[Broker]:
    """Give an Apache Kafka in a process of its own. Raises: MissingTool."""
    process = ApacheKafka(folder, *SETTINGS, *IN_ORDER)
    try:
        process.start()
        yield Broker("Apache Kafka", process.address)
    finally:
        process.stop()


async def play_all(seeds: Iterable[int], ours: Broker, theirs: Broker) -> list[Outcome]:
    """Return how each of these scripts ended; one that is undecided beside others is played alone."""
    for broker in (ours, theirs):
        await broker.prepare()
    outcomes: list[Outcome] = []
    run = uuid.uuid4().hex[:6]
    left = iter(seeds)

    async def work() -> None:
        for seed in left:
            outcomes.append(await play(seed, ours, theirs, run))

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(work)
    for place, each in enumerate(outcomes):
        if each.is_undecided:  # On a busy machine: the timers leave a script that is alone more time.
            outcomes[place] = await play(each.seed, ours, theirs, f"{run}-alone")
            outcomes[place].attempts += each.attempts
            outcomes[place].is_played_alone = True
    for broker in (ours, theirs):
        broker.close()
    return sorted(outcomes, key=lambda each: each.seed)


def compare(seeds: Iterable[int], folder: Path) -> list[Outcome]:
    """Return how the scripts of these seeds ended on both. Raises: MissingTool."""
    for name in ("kafka", "kohort"):
        (folder / name).mkdir()
    with apache_kafka(folder / "kafka") as theirs, kohort(folder / "kohort") as ours:
        return trio.run(play_all, seeds, ours, theirs)


def main(arguments: Sequence[str]) -> int:
    """Play, tell, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential.run")
    parser.add_argument("--scripts", type=int, default=SCRIPTS, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args(arguments)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = compare(range(chosen.first, chosen.first + chosen.scripts), Path(folder))
    found = seen(outcomes)
    for each in outcomes:
        if each.differences:
            sys.stdout.write(story(each))
    sys.stdout.write(summary(found, time.monotonic() - began_s))
    if chosen.write:
        write(found)
    return 1 if found.different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
