"""A region whose operators sleep longer than the group's session, and whose members and broker are killed.

One kill is one reset, two at most; there is a checkpoint all the time; and the sums are exact. For
KOHORT_TEST_REGION_S seconds (24 unless told), a kill every KOHORT_TEST_REGION_KILL_S (12), by SEED, on the
broker that `--on kohort` or `--on kafka` names. The time in which there is no broker is not counted.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import trio

from kohort.client import Producer
from kohort.queues.region.entries import Phase, RegionState
from kohort.queues.region.log import RegionLog
from tests.differential.apache_kafka import ApacheKafka
from tests.interop.broker_process import BrokerProcess
from tests.queues.kmq_worker import options
from tests.queues.region_process import is_slow
from tests.queues.test_region_kills import PARTITIONS, SEED, Scene

SECONDS = float(os.environ.get("KOHORT_TEST_REGION_S", "24"))
KILL_EVERY_S = float(os.environ.get("KOHORT_TEST_REGION_KILL_S", "12"))
MEMBERS = 3
RECORDS_A_SECOND = 20
CHECKPOINT_GAP_MAX_S = 40.0
RESETS_A_KILL_MAX = 2
BROKER_KILLS = 2


class Watch:
    """Follows the region's log in a thread: when there was a checkpoint, and why there were resets."""

    def __init__(self, scene: Scene) -> None:
        self.checkpoints_s: list[float] = []
        self.reasons: list[str] = []
        self.phases: set[Phase] = set()
        self._scene = scene
        self._is_over = False
        self._thread = threading.Thread(target=trio.run, args=(self._follow,), daemon=True)
        self._thread.start()

    async def _follow(self) -> None:
        before: RegionState | None = None
        async with RegionLog(self._scene.region, options(self._scene.bootstrap)) as log:
            while not self._is_over:
                await trio.sleep(0.02)
                state = log.view.state
                if state is None or state == before:
                    continue
                if before is None or state.completed > before.completed:
                    self.checkpoints_s.append(time.monotonic())
                if before is None or state.attempt > before.attempt:
                    self.reasons.append(state.reason)
                self.phases.add(state.phase)
                before = state

    def end(self) -> None:
        self._is_over = True
        self._thread.join(10)

    def longest_gap_s(self) -> float:
        """Return the longest time without a checkpoint since the first one, while there was a broker."""
        moments = [*self.checkpoints_s, time.monotonic()]
        return max(b - a - self._away_s(a, b) for a, b in pairwise(moments))

    def _away_s(self, begin_s: float, end_s: float) -> float:
        """Return for how long there was no broker in that time: Apache Kafka needs seconds to start."""
        return sum(max(0.0, min(end_s, b) - max(begin_s, a)) for a, b in self._scene.away)


@pytest.fixture
def scene(mortal_broker: BrokerProcess | ApacheKafka, tmp_path: Path) -> Iterator[Scene]:
    found = Scene(mortal_broker, tmp_path, "slow")
    yield found
    found.close()


def send_second(scene: Scene, random: Random, *, with_slow: bool) -> None:
    """Send what comes in a second; with one value that has the operator sleep."""
    values = [random.randrange(10**6) * 1_000 + 1 for _ in range(RECORDS_A_SECOND)]
    if with_slow:
        values[0] += 6
        assert is_slow(values[0])
    with Producer(bootstrap_servers=scene.bootstrap) as producer:
        for value in values:
            scene.values.append(value)
            producer.send(scene.topic, b"%d" % value, partition=random.randrange(PARTITIONS))


@pytest.mark.filterwarnings("ignore")
def test_a_death_is_a_reset_though_operators_sleep_longer_than_the_session(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(SEED)
    scene.open()
    send_second(scene, random, with_slow=False)
    scene.settle()
    watch = Watch(scene)
    kills = max(1, int(SECONDS // KILL_EVERY_S))
    broker_kills = set(random.sample(range(kills), min(BROKER_KILLS, kills - 1)))
    for round_number in range(kills):
        began_s = time.monotonic()
        slow_at = random.randrange(int(KILL_EVERY_S) // 2)
        for second in range(int(KILL_EVERY_S) - 1):
            send_second(scene, random, with_slow=second == slow_at)
            time.sleep(max(0.0, began_s + second + 1 - time.monotonic()))
        time.sleep(max(0.0, began_s + KILL_EVERY_S - time.monotonic()))
        scene.kill_process(random.randrange(MEMBERS))
        if round_number in broker_kills:
            scene.kill_broker()
    state = scene.settle()
    watch.end()
    resets, killed = len(watch.reasons) - 1, scene.kills.total()
    away_s = sum(end_s - begin_s for begin_s, end_s in scene.away)
    with capsys.disabled():
        sys.stdout.write(
            f"\nkilled: {dict(scene.kills)}; {len(scene.values)} records, {len(watch.checkpoints_s)}"
            f" checkpoints, {watch.longest_gap_s():.1f} s without one at most; no broker for {away_s:.1f} s;"
            f" {resets} resets: {watch.reasons[1:]} (SEED={SEED})\n"
        )
    assert scene.sums() == (sum(scene.values), len(scene.values))
    assert resets <= RESETS_A_KILL_MAX * killed
    assert watch.longest_gap_s() <= CHECKPOINT_GAP_MAX_S
    assert Phase.FAILED not in watch.phases
    assert state.consecutive_resets == 0
