"""Members, coordinators and the broker are killed at random: what the members have summed up is exact.

ROUNDS kills (4 unless told), the moments by SEED.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
import trio

from kohort.client import Admin, NewTopic, Producer
from kohort.queues.region import Region, checkpointed_states, region_state
from kohort.queues.region.entries import RegionState
from tests.differential.apache_kafka import ApacheKafka
from tests.interop.broker_process import BrokerProcess
from tests.queues.kmq_worker import options

ROOT = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("ROUNDS", "4"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
PARTITIONS, RECORDS_A_ROUND = 4, 400
STANDSTILL_S = 90.0
ROLES = ("a", "b", "c", "coordinator", "coordinator")


class Scene:
    """A region of three members and two coordinators, all of them processes."""

    def __init__(self, broker: BrokerProcess | ApacheKafka, folder: Path, *flavor: str) -> None:
        self.region = Region("sums", members=3)
        self.topic = "numbers"
        self.kills: Counter[str] = Counter()
        self.values: list[int] = []
        self.checkpoints = 0
        self.away: list[tuple[float, float]] = []  # When there was no broker, by the monotonic clock.
        self._flavor = flavor
        self._broker = broker
        self._folder = folder
        self._random = Random(SEED)
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self._broker.address)

    def open(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics(NewTopic(self.topic, partitions=PARTITIONS))
        self._processes = [self._start(role) for role in ROLES]

    def send(self) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(RECORDS_A_ROUND):
                value = self._random.randrange(10**9)
                self.values.append(value)
                producer.send(self.topic, b"%d" % value, partition=number % PARTITIONS)

    def progress(self) -> None:
        """Return once a checkpoint has something of what was sent last: there is something to go back to."""
        before = len(self.values) - RECORDS_A_ROUND
        self._until(lambda state: sum(state.offsets.values()) > before)
        self.checkpoints += 1

    def kill(self) -> None:
        """Let some time pass, kill somebody, and start him again."""
        time.sleep(self._random.uniform(0.0, 1.0))
        if self._random.random() < 0.2:
            self.kill_broker()
        else:
            self.kill_process(self._random.randrange(len(self._processes)))

    def kill_broker(self) -> None:
        """Kill the broker, and start it again."""
        self.kills["broker"] += 1
        began_s = time.monotonic()
        if isinstance(self._broker, BrokerProcess):
            self._broker.kill()
            self._broker.start()
        else:
            self._broker.stop()
            self._broker.restart()
        self.away.append((began_s, time.monotonic()))

    def kill_process(self, victim: int) -> None:
        """Kill a member or a coordinator, and start it again."""
        role, process = self._processes[victim]
        self._end(process)
        self.kills[role] += 1
        self._processes[victim] = self._start(role)

    def settle(self) -> RegionState:
        """Return the checkpoint that has everything."""
        return self._until(lambda state: sum(state.offsets.values()) == len(self.values))

    def _until(self, holds: Callable[[RegionState], bool]) -> RegionState:
        deadline_s = time.monotonic() + STANDSTILL_S
        state: RegionState | None = None
        while time.monotonic() < deadline_s:
            state = trio.run(lambda: region_state(self.region, **options(self.bootstrap)))
            if state is not None and holds(state):
                return state
            time.sleep(0.1)
        raise AssertionError(f"not settled: {state}")

    def sums(self) -> tuple[int, int]:
        states = trio.run(lambda: checkpointed_states(self.region, **options(self.bootstrap)))
        pairs = [tuple(map(int, each.split())) for each in states.values()]
        return sum(each[0] for each in pairs), sum(each[1] for each in pairs)

    def close(self) -> None:
        for _, process in self._processes:
            self._end(process)

    def _start(self, role: str) -> tuple[str, subprocess.Popen[bytes]]:
        arguments = (role, self.bootstrap, self.region.name, self.topic, *self._flavor)
        command = [sys.executable, "-m", "tests.queues.region_process", *arguments]
        with (self._folder / f"{role}.log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, cwd=ROOT)
        return role, process

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def scene(mortal_broker: BrokerProcess | ApacheKafka, tmp_path: Path) -> Iterator[Scene]:
    found = Scene(mortal_broker, tmp_path)
    yield found
    found.close()


def test_the_sums_have_each_record_once(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.open()
    for _ in range(ROUNDS):
        scene.send()
        scene.progress()
        scene.kill()
    state = scene.settle()
    with capsys.disabled():
        sys.stdout.write(
            f"\nkilled: {dict(scene.kills)}; {len(scene.values)} records,"
            f" {state.sequence_id} checkpoints begun, {state.attempt} attempts (SEED={SEED})\n"
        )
    assert scene.sums() == (sum(scene.values), len(scene.values))
