"""Causes planted in groups of real members, and how many of them the observer names.

`python -m tests.observe.planting [--on kafka|kohort] [--seeds N] [KIND ...]` prints a table: how often
the cause came first, and how often something else was named as likely or certain, which must not happen.
If the brokers say that something else happened than was planted, the cause is planted again, and that try is
not judged. Apache Kafka has three brokers here, kohort one. A table may take several runs: `--record FILE`
appends each outcome to the file, and what is in it is not planted again; `--minutes` ends a run, and
`--show FILE` prints the table of all outcomes in it.
"""

from __future__ import annotations

import argparse
import math
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
from tests.observe.kinds import ALWAYS_TRUE, EXPIRED, KINDS, Kind
from tests.observe.member import SESSION_MS
from tests.observe.observer_process import ObserverProcess
from tests.observe.plots import Feed, Place, Plot
from tests.observe.witness import (
    DEPARTURES,
    LOG4J,
    Departed,
    KafkaWitness,
    KohortWitness,
    Witness,
    is_true,
)

AT_ONCE = 4
"""How many causes are planted at the same time."""
TRIES = 3
"""How often a cause is planted at most: on a busy machine a member may miss its session before it leaves."""
SETTINGS = (
    "auto.create.topics.enable=false",  # The feed may still write to a topic that is being deleted.
    "group.initial.rebalance.delay.ms=0",
    "offsets.retention.minutes=1",
    "offsets.retention.check.interval.ms=2000",
    "group.consumer.min.session.timeout.ms=6000",
    f"group.consumer.session.timeout.ms={SESSION_MS}",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "group.consumer.heartbeat.interval.ms=1500",
)


class Outcome(NamedTuple):
    """The outcome of one planting: every first finding since, and whether the right one is among them.

    `not_planted`: what the brokers say of the tries that planted something else. These are not judged.
    """

    kind: str
    seed: int
    library: str
    is_right: bool
    is_surely_wrong: bool
    told: tuple[str, ...]
    not_planted: tuple[str, ...] = ()

    @property
    def is_planted(self) -> bool:
        """Whether it was planted at last."""
        return len(self.not_planted) < TRIES


class NotPlanted(Exception):
    """Something else happened than was planted."""


def plant_until_planted(place: Place, name: str, seed: int) -> Outcome:
    """Plant one cause, again where it does not work, and return what the observer made of it."""
    failed: list[str] = []
    while True:
        plot = Plot(place, _slug(name) + "-again" * len(failed), seed)
        try:
            return plant(plot, name, seed)._replace(not_planted=tuple(failed))
        except (AssertionError, NotPlanted) as problem:
            failed.append(f"{problem}; {observed(plot)}")
        if len(failed) == TRIES:
            nothing = Outcome(name, seed, plot.library, is_right=False, is_surely_wrong=False, told=())
            return nothing._replace(not_planted=tuple(failed))


def plant(plot: Plot, name: str, seed: int) -> Outcome:
    """Plant one cause, and return what the observer made of it. Raises: NotPlanted, AssertionError."""
    kind = KINDS[name]
    try:
        kind.plant(plot)
        deadline = time.monotonic() + kind.within_s
        while kind.expected.value not in _first(plot) and time.monotonic() < deadline:
            time.sleep(1)  # The observer looks at the cluster once a second.
        time.sleep(6)  # What comes behind it counts, too: it must not be wrong.
        told = _explanations(plot)
        departed = plot.departed()
    finally:
        plot.end()
    _check(kind, departed)
    planted = {each.value for each in (kind.expected, *kind.beside, *ALWAYS_TRUE)} - DEPARTURES
    firsts = [each["findings"][0] for each in told]
    misnamed = [
        each
        for each in firsts
        if each["kind"] == kind.expected.value
        and f"{plot.topic}{kind.named}" not in each["text"]
        and kind.named
    ]
    true = [
        each
        for each in firsts
        if each not in misnamed and (each["kind"] in planted or is_true(each, departed, kind.expected))
    ]
    wrong = [each for each in firsts if each not in true and each["likelihood"] != Likelihood.POSSIBLE.value]
    is_right = any(each["kind"] == kind.expected.value for each in true)
    told_words = tuple(f"{each['kind']} ({each['likelihood']}: {each['text']})" for each in firsts)
    told_words += tuple(f"the brokers: {each.member_id}: {each.kind.value}" for each in departed)
    return Outcome(name, seed, plot.library, is_right, bool(wrong), told_words)


def _check(kind: Kind, departed: Sequence[Departed]) -> None:
    """Raises: NotPlanted where the brokers say that other members are gone than were to be."""
    count, kinds = kind.gone
    late = [each for each in departed if each.kind in EXPIRED and each.client == kind.outlives != ""]
    if late or sum(each.kind in kinds for each in departed) < count:
        told = ", ".join(f"{each.member_id}: {each.kind.value}" for each in departed) or "nobody is gone"
        raise NotPlanted(f"the brokers say {told}")


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
    where: Cluster,
    observer: ObserverProcess,
    wanted: Sequence[tuple[str, int]],
    at_once: int = AT_ONCE,
    seconds: float = math.inf,
) -> Iterator[Outcome]:
    """Plant these kinds and seeds, some at a time, and yield what became of each.

    After so many seconds none is begun.
    """
    until = time.monotonic() + seconds
    with Admin(bootstrap_servers=where.bootstrap) as admin:
        feed = Feed(where.bootstrap)
        shared = OneAtATime(admin)
        # It has all methods of an Admin.
        place = Place(where.bootstrap, shared, feed, observer, where.witness)  # type: ignore[arg-type]

        def one(name: str, seed: int) -> Outcome | None:
            return plant_until_planted(place, name, seed) if time.monotonic() < until else None

        try:
            with ThreadPoolExecutor(at_once) as pool:
                planted = [pool.submit(one, name, seed) for name, seed in wanted]
                results = (each.result() for each in as_completed(planted))
                yield from (each for each in results if each is not None)
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


class Cluster(NamedTuple):
    """Where its brokers listen, and who knows what they say."""

    bootstrap: str
    witness: Witness


@contextmanager
def cluster(which: str, folder: Path) -> Iterator[Cluster]:
    """A cluster that runs meanwhile. Raises: MissingTool."""
    if which == "kafka":
        log4j = folder / "log4j2.properties"
        log4j.write_text(LOG4J)
        kafka = KafkaCluster(folder, *SETTINGS, options=(f"-Dlog4j2.configurationFile={log4j.as_uri()}",))
        try:
            kafka.start()
            servers = ",".join("{}:{}".format(*each) for each in kafka.addresses.values())
            yield Cluster(servers, KafkaWitness(kafka.logs))
        finally:
            kafka.stop()
    else:
        broker = BrokerProcess(folder, *SETTINGS)
        broker.start()
        witness = KohortWitness(broker.bootstrap)
        try:
            yield Cluster(broker.bootstrap, witness)
        finally:
            witness.close()
            broker.stop()


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of the table, and what was told where it was not right."""
    yield f"{'planted':<26} {'right':>7} {'surely wrong':>13} {'not planted':>12}"
    for name in (each for each in KINDS if any(one.kind == each for one in outcomes)):
        yield _line(name, [each for each in outcomes if each.kind == name])
    yield _line("all", outcomes)
    for each in outcomes:
        if each.is_planted and (not each.is_right or each.is_surely_wrong):
            yield f"{each.kind}, seed {each.seed}, {each.library}: {'; '.join(each.told) or 'nothing'}"
        for failed in each.not_planted:
            yield f"not planted: {each.kind}, seed {each.seed}, {each.library}: {failed}"


def _line(name: str, outcomes: Sequence[Outcome]) -> str:
    planted = [each for each in outcomes if each.is_planted]
    right, wrong = sum(each.is_right for each in planted), sum(each.is_surely_wrong for each in planted)
    failed = sum(len(each.not_planted) for each in outcomes)
    return f"{name:<26} {right:>4}/{len(planted):<2} {wrong:>13} {failed:>12}"


def main(arguments: Sequence[str]) -> int:
    """Return 0 where all were planted and named right, and none surely and wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help=", ".join(KINDS))
    parser.add_argument("--on", choices=("kafka", "kohort"), default="kohort")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--show", type=Path)
    parser.add_argument(
        "--store", type=Path, help="a folder for what the observer has seen, to look at later"
    )
    given = parser.parse_args(arguments)
    if given.show is not None:
        return show(recorded(given.show))
    outcomes = [] if given.record is None else recorded(given.record)
    known = {(each.kind, each.seed) for each in outcomes}
    seeds = range(given.from_seed, given.from_seed + given.seeds)
    every = [(name, seed) for seed in seeds for name in given.kinds or KINDS]
    wanted = [each for each in every if each not in known]
    with tempfile.TemporaryDirectory() as scratch, cluster(given.on, Path(scratch)) as where:
        observer = ObserverProcess(where.bootstrap, given.store or Path(scratch))
        observer.start()
        try:
            for each in plant_all(where, observer, wanted, given.at_once, 60 * given.minutes):
                outcomes.append(each)
                if given.record is not None:
                    with given.record.open("ab") as file:
                        file.write(msgspec.json.encode(each) + b"\n")
        finally:
            observer.kill()
    return show(outcomes)


def recorded(path: Path) -> list[Outcome]:
    """Return what earlier runs have written."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [msgspec.json.decode(each, type=Outcome) for each in lines]


def show(outcomes: Sequence[Outcome]) -> int:
    """Print the table; return 0 where all were planted and named right, and none surely and wrongly."""
    sys.stdout.write("".join(f"{line}\n" for line in table(outcomes)))
    return 0 if all(each.is_right and not each.is_surely_wrong for each in outcomes) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KohortError as problem:
        sys.exit(str(problem))
