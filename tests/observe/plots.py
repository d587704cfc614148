"""Groups of real members in which causes are planted, and the observer that looks on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kohort.client import Admin, NewTopic, Producer
from tests.interop.java_member import ASSIGNORS
from tests.interop.kafka_tools import java_command
from tests.interop.waiting import wait_until
from tests.observe.member import METADATA_MS, POISON, Job, dotted_settings_of
from tests.observe.observer_process import ObserverProcess
from tests.observe.witness import Departed, Witness

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("kafka-python", "librdkafka", "aiokafka", "java")
LOGS = Path(tempfile.mkdtemp(prefix="planting-"))
"""What members write to standard error."""
SETTLE_MS = 17_000
"""A group that has come up is at rest: what happens now is not part of its start."""
AGAIN_SETTLE_MS = 62_000
"""Where a member was gone already: what happens now is not part of that either."""
STEP_SECONDS_MAX, START_STEP_SECONDS_MAX = 55, 13
"""Later than this it is no step of one deployment, or of one start, but another event."""
REST_SECONDS_MAX = 240
"""On a busy machine members start slowly, and miss their sessions at first."""


class Application:
    """A member's process. It joins when it is told to, so that a busy machine delays no join."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._is_ready = False
        if job.library == "java":
            command = java_member_command(job)
        else:
            command = [sys.executable, "-m", "tests.observe.member", msgspec.json.encode(job).decode()]
        pipe = subprocess.PIPE
        with (LOGS / f"{job.group}-{job.client_id}.log").open("a") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=log, text=True
            )

    def join(self) -> None:
        """Have it join its group once it is ready."""
        self.await_ready()
        self.tell("join")

    def await_ready(self) -> None:
        """Return when it has its consumer, which may take long on a busy machine."""
        assert self._process.stdout is not None
        if not self._is_ready:
            line = self._process.stdout.readline()
            assert line == "ready\n", f"{self.job.client_id} said {line!r}"
            self._is_ready = True

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
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


def java_member_command(job: Job) -> list[str]:
    """Return the command of a member by Kafka's own client. Raises: MissingTool."""
    settings = {**dotted_settings_of(job, ASSIGNORS[job.strategy]), "metadata.max.age.ms": METADATA_MS}
    told = [f"{name}={value}" for name, value in settings.items()]
    subscription = ("pattern", job.pattern) if job.pattern else ("topics", ",".join(job.topics))
    return java_command("clients", "CommandedMember", *subscription, *told)


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
        """Write a record that ends its reader."""
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
    witness: Witness


class Plot:
    """Where one cause is planted: a group, its topic, and the members that run."""

    def __init__(self, place: Place, name: str, seed: int) -> None:
        self.admin = place.admin
        self.feed = place.feed
        self.observer = place.observer
        self._witness = place.witness
        self.group = f"{name}-{seed}"
        self.topic = f"{self.group}-topic"
        self.dice = random.Random(f"{name}/{seed}")
        self.seed = seed
        self.library = self.one_of(LIBRARIES)
        self.partitions = self.dice.randint(4, 8)
        self.members: list[Application] = []
        self.planted_ms = 0
        self._bootstrap = place.bootstrap
        self.create(self.topic, self.partitions)

    def one_of(self, libraries: Sequence[str]) -> str:
        """Return the library of this seed: each in turn, and beyond that another one for each kind."""
        turn = self.seed // len(libraries) * sum(map(ord, self.group))
        return libraries[(self.seed + turn) % len(libraries)]

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
        started = [Application(self.job(number, **other)) for number in numbers]
        self.members += started
        for each in started:
            each.await_ready()
        for each in started:
            each.join()

    def begin(self, count: int = 0, **other: object) -> None:
        """Have a group of two or three members at rest."""
        self.start(*range(count or self.dice.randint(2, 3)), **other)
        self.rest()

    def rest(self) -> None:
        """Return when the group is at rest: the cause is planted from now on."""
        wait_until(self._is_at_rest, f"{self.group} is at rest", REST_SECONDS_MAX)
        self.planted_ms = now_ms()

    def _is_at_rest(self) -> bool:
        seen = self._look()
        told = seen.get("observed", ())
        if not told or len(seen["members"]) != len(self.members):
            return False
        passed_ms = now_ms() - told[-1]["ended_ms"]
        return passed_ms >= AGAIN_SETTLE_MS or (
            passed_ms >= SETTLE_MS and not self._witness.departed(self.group)
        )

    def departed(self) -> list[Departed]:
        """Return the members that are gone since the cause is planted, by what the brokers say."""
        return [each for each in self._witness.departed(self.group) if each.at_ms >= self.planted_ms]

    def restart(self, index: int, *, kill: bool = False) -> None:
        """End a member, and start it again. One that leaves is seen to be gone, and to be back."""
        member, spare = self.members[index], Application(self.members[index].job)
        spare.await_ready()
        if kill:
            member.kill()
            self.members[index] = spare
            spare.join()
            return
        member.close()
        self._await_members(len(self.members) - 1, STEP_SECONDS_MAX)
        self.members[index] = spare
        spare.join()
        self._await_members(len(self.members), STEP_SECONDS_MAX)

    def start_one_by_one(self, *numbers: int) -> None:
        """Start members, each when the one before is in the group."""
        self.members = [Application(self.job(number)) for number in numbers]
        for each in self.members:
            each.await_ready()
        for count, each in enumerate(self.members, 1):
            each.join()
            self._await_members(count, START_STEP_SECONDS_MAX if count > 1 else REST_SECONDS_MAX)

    def _await_members(self, count: int, within_s: float) -> None:
        def are_there() -> bool:
            return len(self.seen()) == count

        wait_until(are_there, f"{self.group} has {count} members", within_s)

    def seen(self) -> list[dict[str, Any]]:
        """Return the members that the observer sees; none where it does not know the group."""
        members: list[dict[str, Any]] = self._look().get("members", [])
        return members

    def _look(self) -> dict[str, Any]:
        time.sleep(0.25)  # A wait looks again and again, and all plots share one observer.
        try:
            return self.observer.group(self.group)
        except urllib.error.HTTPError:
            return {}

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


def now_ms() -> int:
    """Return the time since 1970."""
    return time.time_ns() // 1_000_000
