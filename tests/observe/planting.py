"""Causes planted in groups of real members, and how many of them the observer names.

`python -m tests.observe.planting [--on kafka|kohort] [--seeds N] [KIND ...]` prints a table: how often
the cause stood at the first place, and how often something else was named surely, which must not be.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kohort.broker.explain.findings import FindingKind, Likelihood
from kohort.client import Admin, KohortError, NewTopic, OffsetAndMetadata, Producer
from tests.differential.apache_kafka import ApacheKafka
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until
from tests.observe.member import POISON, Job
from tests.observe.observer_process import ObserverProcess

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("kafka-python", "librdkafka", "aiokafka")
LOGS = Path(tempfile.mkdtemp(prefix="planting-"))
"""What members write to standard error."""
SETTLE_MS = 17_000
"""A group that has come up is at rest: what happens now is not part of its start."""
REST_SECONDS_MAX = 240
"""On a busy machine members start slowly, and miss their sessions at first."""
AT_ONCE = 4
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.retention.minutes=1",
    "offsets.retention.check.interval.ms=2000",
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "group.consumer.heartbeat.interval.ms=1500",
)
KAFKA_SETTINGS = (
    *SETTINGS,
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)
K = FindingKind


class Application:
    """A member's process."""

    def __init__(self, job: Job) -> None:
        self.job = job
        command = [sys.executable, "-m", "tests.observe.member", msgspec.json.encode(job).decode()]
        with (LOGS / f"{job.group}-{job.client_id}.log").open("a") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=log, text=True)

    def tell(self, command: str) -> None:
        """Have it do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def close(self) -> None:
        """Have it leave its group and end."""
        if self.is_running():
            self.tell("close")
        self._end()

    def kill(self) -> None:
        """Kill it: nobody tells the group."""
        self._process.send_signal(signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


class Feed:
    """Writes to all partitions of the topics that are planted in, all the time."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(bootstrap_servers=bootstrap, linger_ms=20)
        self._topics: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, topic: str, partitions: int) -> None:
        """Begin to write to a topic, or to more partitions of it."""
        with self._lock:
            self._topics[topic] = partitions

    def drop(self, topic: str) -> None:
        """Write to a topic no longer."""
        with self._lock:
            self._topics.pop(topic, None)

    def poison(self, topic: str, partition: int) -> None:
        """Write a record that ends who reads it."""
        self._producer.send(topic, POISON, partition=partition).result(10)

    def close(self) -> None:
        """Stop."""
        self._stopping.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        while not self._stopping.wait(0.25):
            with self._lock:
                places = [(topic, each) for topic, count in self._topics.items() for each in range(count)]
            for topic, partition in places:
                self._producer.send(topic, b"x", partition=partition)


class Place(NamedTuple):
    """The cluster in which all is planted."""

    bootstrap: str
    admin: Admin
    feed: Feed
    observer: ObserverProcess


class Plot:
    """Where one cause is planted: a group, its topic, and the members that run."""

    def __init__(self, place: Place, name: str, seed: int) -> None:
        self.admin = place.admin
        self.feed = place.feed
        self.observer = place.observer
        self.group = f"{name}-{seed}"
        self.topic = f"{self.group}-topic"
        self.dice = random.Random(f"{name}/{seed}")
        self.library = LIBRARIES[seed % len(LIBRARIES)]
        self.partitions = self.dice.randint(4, 8)
        self.members: list[Application] = []
        self.planted_ms = 0
        self._bootstrap = place.bootstrap
        self.create(self.topic, self.partitions)

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic that is written to."""
        self.admin.create_topics(NewTopic(topic, partitions=partitions))
        wait_until(lambda: topic in self.admin.list_topics(), f"{topic} is there")
        self.feed.add(topic, partitions)

    def job(self, number: int, **other: object) -> Job:
        """Return what a member is."""
        told = {
            "library": self.library,
            "bootstrap": self._bootstrap,
            "group": self.group,
            "client_id": f"billing-{number}",
            "topics": [self.topic],
            **other,
        }
        return msgspec.convert(told, Job)

    def start(self, *numbers: int, **other: object) -> None:
        """Start members, all at once."""
        self.members += [Application(self.job(number, **other)) for number in numbers]

    def begin(self, count: int = 0, **other: object) -> None:
        """Have a group of two or three members at rest."""
        self.start(*range(count or self.dice.randint(2, 3)), **other)
        self.rest()

    def rest(self) -> None:
        """Let the group come to rest; what is done now is what is planted."""
        wait_until(self._is_at_rest, f"{self.group} is at rest", REST_SECONDS_MAX)
        self.planted_ms = now_ms()

    def _is_at_rest(self) -> bool:
        time.sleep(0.5)
        told = self.observer.explanations(self.group)
        if not told or now_ms() - told[-1]["ended_ms"] < SETTLE_MS:
            return False
        return len(self.observer.group(self.group)["members"]) == len(self.members)

    def restart(self, index: int, *, kill: bool = False, pause_s: float = 1.0) -> None:
        """End a member and start it again."""
        member = self.members[index]
        if kill:
            member.kill()
        else:
            member.close()
        time.sleep(pause_s)
        self.members[index] = Application(member.job)

    def stop(self) -> None:
        """Close all members."""
        for each in self.members:
            if each.is_running():
                each.tell("close")
        for each in self.members:
            each.close()
        self.members = []

    def end(self) -> None:
        """Kill all that still runs."""
        for each in self.members:
            each.kill()
        self.feed.drop(self.topic)


class Kind(NamedTuple):
    """A kind of cause: how it is planted, what is to be named, and what else is true of it."""

    expected: FindingKind
    plant: Callable[[Plot], None]
    beside: tuple[FindingKind, ...] = ()
    within_s: float = 25.0


def joins(plot: Plot) -> None:
    plot.begin()
    plot.start(7)


def leaves(plot: Plot) -> None:
    plot.begin()
    plot.members.pop().close()


def dies(plot: Plot) -> None:
    plot.begin()
    plot.members.pop().kill()


def works_too_long(plot: Plot) -> None:
    plot.begin(poll_ms=15_000)
    plot.members[0].tell("stall 21")


def static_bounce(plot: Plot) -> None:
    plot.begin(2)
    plot.start(5, instance="the-one", session_ms=12_000)
    plot.rest()
    plot.restart(-1, kill=True)


def same_instance(plot: Plot) -> None:
    plot.begin(1)
    plot.start(5, instance="the-one", session_ms=12_000)
    plot.rest()
    for _ in range(4):  # Whoever is fenced ends, and is started again by who runs it.
        plot.start(5, instance="the-one", session_ms=12_000)
        time.sleep(5)
        plot.members.pop(-2).kill()


def changes_subscription(plot: Plot) -> None:
    plot.create(f"{plot.topic}-more", 2)
    plot.begin()
    plot.members[0].tell(f"subscribe {plot.topic} {plot.topic}-more")


def adds_partitions(plot: Plot) -> None:
    plot.begin()
    plot.admin.create_partitions({plot.topic: plot.partitions + 3})


def creates_topic(plot: Plot) -> None:
    plot.begin(pattern=f"^{plot.topic}.*")
    plot.create(f"{plot.topic}-new", 2)


def deletes_topic(plot: Plot) -> None:
    plot.create(f"{plot.topic}-old", 2)
    plot.begin(pattern=f"^{plot.topic}.*")
    plot.feed.drop(f"{plot.topic}-old")
    plot.admin.delete_topics(f"{plot.topic}-old")


def changes_assignor(plot: Plot) -> None:
    plot.begin()
    count = len(plot.members)
    plot.stop()
    plot.start(*range(count), strategy="roundrobin")


def deploys(plot: Plot) -> None:
    plot.begin(3)
    for index in range(3):
        plot.restart(index, pause_s=2.5)
        time.sleep(4)


def storms(plot: Plot) -> None:
    plot.begin()
    for _ in range(4):
        plot.restart(0, pause_s=2.5)
        time.sleep(4)


def two_applications(plot: Plot) -> None:
    plot.create(f"{plot.topic}-other", 2)
    plot.begin()
    plot.start(1, client_id="audit-1", topics=[f"{plot.topic}-other"])


def poisons(plot: Plot) -> None:
    plot.begin(2)
    plot.feed.poison(plot.topic, 1)
    until = time.monotonic() + 45
    while time.monotonic() < until:
        time.sleep(0.5)
        for index, each in enumerate(plot.members):
            if not each.is_running():
                time.sleep(2)
                plot.members[index] = Application(each.job)


def started_one_by_one(plot: Plot) -> None:
    plot.planted_ms = now_ms()
    for number in range(3):
        plot.start(number)
        time.sleep(4)


def offsets_expire(plot: Plot) -> None:
    plot.begin(1)
    plot.stop()


def deletes_offsets(plot: Plot) -> None:
    plot.begin(1)
    plot.stop()
    time.sleep(3)
    committed = sorted(plot.admin.list_group_offsets(plot.group))
    plot.admin.delete_group_offsets(plot.group, *committed[:2])


def deletes_group(plot: Plot) -> None:
    plot.begin(1)
    plot.stop()
    time.sleep(3)
    plot.admin.delete_groups(plot.group)


def resets_offsets(plot: Plot) -> None:
    plot.begin(1)
    plot.stop()
    time.sleep(3)
    committed = plot.admin.list_group_offsets(plot.group)
    plot.admin.alter_group_offsets(plot.group, {each: OffsetAndMetadata(0) for each in committed})


def goes_back(plot: Plot) -> None:
    plot.begin(1)
    plot.members[0].tell("rewind")


def consumer_protocol(plant: Callable[[Plot], None]) -> Callable[[Plot], None]:
    """Return the same for members of the newer protocol."""

    def planted(plot: Plot) -> None:
        plot.library = "librdkafka"
        start = plot.start

        def start_newer(*numbers: int, **other: object) -> None:
            start(*numbers, **{"protocol": "consumer", **other})

        plot.start = start_newer  # type: ignore[method-assign]
        plant(plot)

    return planted


SILENT = (K.MEMBER_EXPIRED,)
"""A leader of kafka-python may fall silent once it has rejoined for other topics: kohort's broker says so."""

KINDS = {
    "joins": Kind(K.MEMBER_JOINED, joins),
    "leaves": Kind(K.MEMBER_LEFT, leaves),
    "dies": Kind(K.MEMBER_EXPIRED, dies),
    "works too long": Kind(K.POLL_INTERVAL_EXCEEDED, works_too_long, (K.MEMBER_JOINED,), 40.0),
    "static bounce": Kind(K.STATIC_MEMBER_RETURNED, static_bounce),
    "same instance": Kind(K.SAME_INSTANCE, same_instance, (K.STATIC_MEMBER_RETURNED,)),
    "changes subscription": Kind(K.SUBSCRIPTION_CHANGED, changes_subscription, SILENT),
    "adds partitions": Kind(K.PARTITIONS_ADDED, adds_partitions, SILENT),
    "creates topic": Kind(K.TOPIC_CREATED, creates_topic, SILENT),
    "deletes topic": Kind(K.TOPIC_DELETED, deletes_topic, SILENT),
    "changes assignor": Kind(K.ASSIGNOR_CHANGED, changes_assignor, (K.MEMBER_LEFT, K.MEMBER_JOINED)),
    "deploys": Kind(K.ROLLING_DEPLOYMENT, deploys),
    "storms": Kind(K.STORM, storms),
    "two applications": Kind(K.TWO_APPLICATIONS, two_applications),
    "poison": Kind(K.POISON_RECORD, poisons, (K.STORM,)),
    "one by one": Kind(K.STARTED_ONE_BY_ONE, started_one_by_one),
    "offsets expire": Kind(K.OFFSETS_EXPIRED, offsets_expire, (K.MEMBER_LEFT,), 90.0),
    "deletes offsets": Kind(K.OFFSETS_DELETED, deletes_offsets, (K.MEMBER_LEFT,)),
    "deletes group": Kind(K.GROUP_DELETED, deletes_group, (K.MEMBER_LEFT,)),
    "resets offsets": Kind(K.OFFSETS_RESET, resets_offsets, (K.MEMBER_LEFT,)),
    "goes back": Kind(K.OFFSETS_WENT_BACK, goes_back),
    "joins (epochs)": Kind(K.MEMBER_JOINED, consumer_protocol(joins)),
    "leaves (epochs)": Kind(K.MEMBER_LEFT, consumer_protocol(leaves)),
    "dies (epochs)": Kind(K.MEMBER_EXPIRED, consumer_protocol(dies)),
    "adds partitions (epochs)": Kind(K.PARTITIONS_ADDED, consumer_protocol(adds_partitions), (), 60.0),
}
ALWAYS_TRUE = {K.OWNERSHIP_CHANGED, K.LEADER_REJOINED, K.COORDINATOR_MOVED}


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
            time.sleep(1)
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
    told_words = tuple(f"{each['kind']} ({each['likelihood']})" for each in firsts)
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
    bootstrap: str, observer: ObserverProcess, names: Sequence[str], seeds: Sequence[int]
) -> Iterator[Outcome]:
    """Plant each kind with each seed, some at a time, and yield what became of each."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        feed = Feed(bootstrap)
        shared = OneAtATime(admin)
        place = Place(bootstrap, shared, feed, observer)  # type: ignore[arg-type]  # It has all its methods.

        def one(name: str, seed: int) -> Outcome:
            return plant(Plot(place, _slug(name), seed), name, seed)

        try:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                yield from pool.map(
                    lambda each: one(*each), [(name, seed) for seed in seeds for name in names]
                )
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


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def cluster(which: str, folder: Path) -> Iterator[str]:
    """Where a broker listens that runs meanwhile. Raises: MissingTool."""
    if which == "kafka":
        kafka = ApacheKafka(folder, *KAFKA_SETTINGS)
        kafka.start()
        try:
            yield "{}:{}".format(*kafka.address)
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
    for name in dict.fromkeys(each.kind for each in outcomes):
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
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, cluster(given.on, Path(scratch)) as bootstrap:
        observer = ObserverProcess(bootstrap, Path(scratch))
        observer.start()
        try:
            outcomes = list(plant_all(bootstrap, observer, given.kinds or list(KINDS), range(given.seeds)))
        finally:
            observer.kill()
    sys.stdout.write("".join(f"{line}\n" for line in table(outcomes)))
    return 0 if all(each.is_right and not each.is_surely_wrong for each in outcomes) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KohortError as problem:
        sys.exit(str(problem))
