"""Causes planted in groups of real members, and how many of them the observer names.

`python -m tests.observe.planting [--on kafka|kohort] [--seeds N] [KIND ...]` prints a table: how often
the cause stood at the first place, and how often something else was named surely, which must not be.
Apache Kafka has three brokers here, kohort one. `--from-seed` and `--record FILE` are for a table in several
runs: what became of each planting goes to the file, and `--show FILE` prints the table of all in it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from benchmarks.parts.clusters import KafkaCluster

from kohort.broker.explain.findings import Likelihood
from kohort.client import Admin, KohortError
from tests.interop.broker_process import BrokerProcess
from tests.observe.kinds import ALWAYS_TRUE, KINDS
from tests.observe.observer_process import ObserverProcess
from tests.observe.plots import Feed, Place, Plot

AT_ONCE = 4
"""How many causes are planted at the same time."""
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.retention.minutes=1",
    "offsets.retention.check.interval.ms=2000",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "group.consumer.heartbeat.interval.ms=1500",
)


class Outcome(NamedTuple):
    """What became of one planting: every first finding since, and whether the right one is among them."""

    kind: str
    seed: int
    library: str
    is_right: bool
    is_surely_wrong: bool
    told: tuple[str, ...]


def plant(plot: Plot, name: str, seed: int) -> Outcome:
    """Plant one cause, and return what the observer made of it."""
    kind = KINDS[name]
    try:
        kind.plant(plot)
        deadline = time.monotonic() + kind.within_s
        while kind.expected.value not in _first(plot) and time.monotonic() < deadline:
            time.sleep(1)  # The observer looks at the cluster once a second.
        time.sleep(6)  # What comes behind it counts, too: it must not be wrong.
        told = _explanations(plot)
    except AssertionError as problem:
        words = f"not planted: {problem}; {observed(plot)}"
        return Outcome(name, seed, plot.library, is_right=False, is_surely_wrong=False, told=(words,))
    finally:
        plot.end()
    true = {each.value for each in (kind.expected, *kind.beside, *ALWAYS_TRUE)}
    firsts = [each["findings"][0] for each in told]
    wrong = [
        each
        for each in firsts
        if each["kind"] not in true and each["likelihood"] != Likelihood.POSSIBLE.value
    ]
    is_right = any(each["kind"] == kind.expected.value for each in firsts)
    told_words = tuple(f"{each['kind']} ({each['likelihood']}: {each['text']})" for each in firsts)
    return Outcome(name, seed, plot.library, is_right, bool(wrong), told_words)


def observed(plot: Plot) -> str:
    """Return all that is known of a group, in short."""
    return "; ".join(
        f"{each['generation_id']}: {each['findings'][0]['kind']}"
        for each in plot.observer.explanations(plot.group)
    )


def _explanations(plot: Plot) -> list[dict[str, Any]]:
    return [each for each in plot.observer.explanations(plot.group) if each["ended_ms"] >= plot.planted_ms]


def _first(plot: Plot) -> set[str]:
    return {each["findings"][0]["kind"] for each in _explanations(plot)}


def plant_all(
    bootstrap: str,
    observer: ObserverProcess,
    names: Sequence[str],
    seeds: Sequence[int],
    at_once: int = AT_ONCE,
) -> Iterator[Outcome]:
    """Plant each kind with each seed, some at a time, and yield what became of each."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        feed = Feed(bootstrap)
        shared = OneAtATime(admin)
        place = Place(bootstrap, shared, feed, observer)  # type: ignore[arg-type]  # It has all its methods.

        def one(name: str, seed: int) -> Outcome:
            return plant(Plot(place, _slug(name), seed), name, seed)

        try:
            with ThreadPoolExecutor(at_once) as pool:
                planted = [pool.submit(one, name, seed) for seed in seeds for name in names]
                yield from (each.result() for each in as_completed(planted))
        finally:
            feed.close()


class OneAtATime:
    """An Admin that several threads use, one after the other."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> object:
        method = getattr(self._admin, name)

        def call(*given: object, **named: object) -> object:
            with self._lock:
                return method(*given, **named)

        return call


def _slug(name: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in name)


@contextmanager
def cluster(which: str, folder: Path) -> Iterator[str]:
    """Where brokers listen that run meanwhile. Raises: MissingTool."""
    if which == "kafka":
        kafka = KafkaCluster(folder, *SETTINGS)
        try:
            kafka.start()
            yield ",".join("{}:{}".format(*each) for each in kafka.addresses.values())
        finally:
            kafka.stop()
    else:
        broker = BrokerProcess(folder, *SETTINGS)
        broker.start()
        try:
            yield broker.bootstrap
        finally:
            broker.stop()


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of the table, and what was told where it was not right."""
    yield f"{'planted':<26} {'right':>7} {'surely wrong':>13}"
    for name in (each for each in KINDS if any(one.kind == each for one in outcomes)):
        those = [each for each in outcomes if each.kind == name]
        right, wrong = sum(each.is_right for each in those), sum(each.is_surely_wrong for each in those)
        yield f"{name:<26} {right:>4}/{len(those):<2} {wrong:>13}"
    right, wrong = sum(each.is_right for each in outcomes), sum(each.is_surely_wrong for each in outcomes)
    yield f"{'all':<26} {right:>4}/{len(outcomes):<2} {wrong:>13}"
    for each in outcomes:
        if not each.is_right or each.is_surely_wrong:
            yield f"{each.kind}, seed {each.seed}, {each.library}: {'; '.join(each.told) or 'nothing'}"


def main(arguments: Sequence[str]) -> int:
    """Return 0 where all were named right, and none surely and wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=", ".join(KINDS))
    parser.add_argument("--on", choices=("kafka", "kohort"), default="kohort")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--show", type=Path)
    parser.add_argument(
        "--store", type=Path, help="a folder for what the observer has seen, to look at later"
    )
    given = parser.parse_args(arguments)
    if given.show is not None:
        lines = given.show.read_text().splitlines()
        return show([msgspec.json.decode(each, type=Outcome) for each in lines])
    seeds = range(given.from_seed, given.from_seed + given.seeds)
    kinds = given.kinds or list(KINDS)
    outcomes = []
    with tempfile.TemporaryDirectory() as scratch, cluster(given.on, Path(scratch)) as bootstrap:
        observer = ObserverProcess(bootstrap, given.store or Path(scratch))
        observer.start()
        try:
            for each in plant_all(bootstrap, observer, kinds, seeds, given.at_once):
                outcomes.append(each)
                if given.record is not None:
                    with given.record.open("ab") as file:
                        file.write(msgspec.json.encode(each) + b"\n")
        finally:
            observer.kill()
    return show(outcomes)


def show(outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 0 where all were named right, and none surely and wrongly."""
    sys.stdout.write("".join(f"{line}\n" for line in table(outcomes)))
    return 0 if all(each.is_right and not each.is_surely_wrong for each in outcomes) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KohortError as problem:
        sys.exit(str(problem))
