"""How long a member that keeps a partition stops reading it while another joins: eager, and cooperative.

    python benchmarks/rebalances.py [--bootstrap HOST:PORT] [--rounds N]

Every partition gets a record each few milliseconds. One member does nothing but read, another works a
second on each of its batches, and then a third joins. The figure is the longest time that the first member
did not get a record of a partition that it owned before and afterwards.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from kohort.client import Admin, Consumer, NewTopic, Producer
from kohort.client.config import ConsumerOptions
from tests.interop.broker_process import BrokerProcess
from tests.interop.threads import meanwhile
from tests.interop.waiting import wait_until

PARTITIONS = 6
RECORD_EVERY_S = 0.005
WORK_S = 1.0
HEARTBEAT_MS = 250
SETTLED_S = 0.5
STRATEGIES = {"eager": "sticky", "cooperative": "cooperative-sticky"}
QUICK = ("group.initial.rebalance.delay.ms=0", "offsets.topic.replication.factor=1")


class Gap(NamedTuple):
    """The effect of one rebalance on the member that kept partitions."""

    longest_ms: float
    usual_ms: float
    """The longest pause in the same time before the new member joined."""
    kept: int
    took_ms: float
    """From the newcomer's coming until it had its share."""


class Member:
    """A consumer with a thread, which works on each batch for a while."""

    def __init__(self, topic: str, options: ConsumerOptions, work_s: float = 0.0) -> None:
        self.arrivals: list[tuple[float, int]] = []
        self.consumer = Consumer(topic, **options)
        self._work_s = work_s
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that it owns."""
        return frozenset(each.partition for each in self.consumer.assignment())

    def close(self) -> None:
        """Leave."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        with self.consumer:
            while not self._ends.is_set():
                records = self.consumer.poll(timeout_ms=100)
                now_s = time.monotonic()
                self.arrivals += [(now_s, each.partition) for each in records]
                if records:
                    self.work()

    def work(self) -> None:
        """Handle a batch."""
        self._ends.wait(self._work_s)


def measure(bootstrap: str, strategy: str) -> Gap:
    """Return the effect of a new member on a member of a group with this assignor."""
    topic, group = f"gaps-{uuid.uuid4().hex[:8]}", f"gaps-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=PARTITIONS))
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "partition_assignment_strategy": strategy,
        "auto_offset_reset": "latest",
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "fetch_max_wait_ms": 100,
    }
    members: list[Member] = []
    with records_keep_coming(bootstrap, topic):
        try:
            return _let_three_join(members, lambda work_s: Member(topic, options, work_s))
        finally:
            for each in members:
                each.close()


def _let_three_join(members: list[Member], join: Callable[[float], Member]) -> Gap:
    steady = join(0.0)
    members.append(steady)
    wait_until(lambda: len(steady.partitions) == PARTITIONS, "the first has everything")
    members.append(join(WORK_S))
    wait_until(lambda: [len(each.partitions) for each in members] == [3, 3], "two share")
    wait_until(lambda: _reads_all(steady), "the first reads all of its share")
    calm_s = time.monotonic()
    time.sleep(WORK_S)  # The usual gap is measured over this time.
    before, came_s = steady.partitions, time.monotonic()
    members.append(join(0.0))
    wait_until(lambda: [len(each.partitions) for each in members] == [2, 2, 2], "three share")
    shared_s = time.monotonic()
    kept = before & steady.partitions
    wait_until(lambda: time.monotonic() > shared_s + SETTLED_S and _reads_all(steady), "they read")
    return Gap(
        longest_gap_ms(steady.arrivals, kept, came_s, time.monotonic()),
        longest_gap_ms(steady.arrivals, kept, calm_s, came_s),
        len(kept),
        (shared_s - came_s) * 1_000,
    )


def _reads_all(member: Member) -> bool:
    now_s = time.monotonic()
    recent = {partition for at_s, partition in member.arrivals[-1_000:] if at_s > now_s - 0.2}
    return member.partitions <= recent


def longest_gap_ms(
    arrivals: list[tuple[float, int]], partitions: frozenset[int], from_s: float, until_s: float
) -> float:
    """Return the longest time without a record of a partition, over all partitions."""
    longest_s = 0.0
    for partition in partitions:
        within = (at for at, each in arrivals if each == partition and from_s <= at <= until_s)
        times = [from_s, *within, until_s]
        longest_s = max(longest_s, *(later - each for each, later in pairwise(times)))
    return longest_s * 1_000


@contextmanager
def records_keep_coming(bootstrap: str, topic: str) -> Iterator[None]:
    """Produce to every partition, in a thread, until the block ends."""

    def produce(ends: threading.Event) -> None:
        with Producer(bootstrap_servers=bootstrap, linger_ms=0, acks=1) as producer:
            while not ends.wait(RECORD_EVERY_S):
                for partition in range(PARTITIONS):
                    producer.send(topic, value=b"x", partition=partition)

    with meanwhile(produce):
        yield


def line(name: str, gap: Gap) -> str:
    """Return one figure as a sentence."""
    return (
        f"{name:12} a kept partition stood still for {gap.longest_ms:7.0f} ms at most"
        f" (without a rebalance {gap.usual_ms:4.0f} ms); the rebalance took {gap.took_ms:6.0f} ms"
    )


def main() -> None:
    """Measure both protocols in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder), *QUICK)
        if options.bootstrap is None:
            broker.start()
        try:
            for _ in range(options.rounds):
                for name, strategy in STRATEGIES.items():
                    print(line(name, measure(options.bootstrap or broker.bootstrap, strategy)))
        finally:
            if options.bootstrap is None:
                broker.stop()


if __name__ == "__main__":
    main()
