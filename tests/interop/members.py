"""Members of a group that live while a test looks on: in threads, and in processes that can be killed."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol, TypeVar

from tests.interop.clients import Changes, Client, ConsumerClient, ConsumerOptions, Incoming, Place
from tests.interop.waiting import wait_until

POLL_S = 0.05
ROOT = Path(__file__).resolve().parents[2]

T = TypeVar("T")


class Member:
    """A consumer polled by a thread of its own, as an application polls it."""

    def __init__(self, client: Client, bootstrap: str, options: ConsumerOptions) -> None:
        self.name = client.name
        self.records: list[Incoming] = []
        self.assignment: frozenset[Place] = frozenset()
        self.problem: Exception | None = None
        self._consumer = client.consumer(bootstrap, options)
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def changes(self) -> Changes:
        """What its rebalance listener was told."""
        return self._consumer.changes

    @property
    def consumer(self) -> ConsumerClient:
        """What to look at; what changes anything goes through `call`."""
        return self._consumer

    def call(self, action: Callable[[ConsumerClient], T]) -> T:
        """Run this between two polls, in the thread that polls, and return what it returns."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(action(self._consumer))
            except Exception as error:  # noqa: BLE001  # It is raised again where the test waits.
                answer.set_exception(error)

        self._calls.put(run)
        return answer.result(60)

    def close(self) -> None:
        """Leave the group and return when the consumer is closed. Raises: what ended its thread early."""
        self._stopping.set()
        self._thread.join()
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._run_calls()
                self.records += self._consumer.poll(POLL_S)
                self.assignment = self._consumer.assignment()
            self._run_calls()
            self._consumer.close()
        except Exception as error:  # noqa: BLE001  # It is raised again by close().
            self.problem = error

    def _run_calls(self) -> None:
        while not self._calls.empty():
            self._calls.get()()


class Mortal:
    """A member in a process of its own, there to be killed."""

    def __init__(self, client: Client, bootstrap: str, options: ConsumerOptions) -> None:
        job = [client.name, bootstrap, options.group, list(options.topics), options.session_timeout_ms]
        command = [sys.executable, "-m", "tests.interop.mortal", json.dumps(job)]
        self.assignment: frozenset[Place] = frozenset()
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """Kill it with SIGKILL: nobody tells the group."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.assignment = frozenset(Place(*each) for each in json.loads(line))


class Owner(Protocol):
    """Somebody who owns partitions."""

    @property
    def assignment(self) -> frozenset[Place]:
        """What it owns now."""


def shares(members: Iterable[Owner], places: Sequence[Place]) -> Callable[[], bool]:
    """Return a condition: these members own all places between them, each at least one, none shared."""
    everyone = list(members)

    def condition() -> bool:
        owned = [each.assignment for each in everyone]
        return all(owned) and sum(map(len, owned)) == len(places) and frozenset().union(*owned) == set(places)

    return condition


def wait_until_shared(members: Iterable[Owner], places: Sequence[Place], within_s: float = 20.0) -> float:
    """Return the seconds until these members share the places."""
    everyone = list(members)
    return wait_until(shares(everyone, places), f"{len(everyone)} members share {len(places)}", within_s)
