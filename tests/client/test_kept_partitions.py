"""A member that keeps a partition in a cooperative rebalance never stops reading it."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from benchmarks.rebalances import HEARTBEAT_MS, PARTITIONS, RECORD_EVERY_S, STRATEGIES, Member
from benchmarks.rebalances import records_keep_coming as records_come

from kohort.client import Admin, NewTopic
from kohort.client.config import ConsumerOptions
from tests.interop.waiting import wait_until

RECORDS_OF_THREE_HEARTBEATS = round(3 * HEARTBEAT_MS / 1_000 / RECORD_EVERY_S)


class Working(Member):
    """Handles a batch until `done` is set, and does not poll meanwhile: a rebalance waits for it."""

    def __init__(self, topic: str, options: ConsumerOptions) -> None:
        self.done, self.works = threading.Event(), threading.Event()
        self.done.set()
        super().__init__(topic, options)

    def work(self) -> None:
        if not self.done.is_set():
            self.works.set()
            self.done.wait()

    def close(self) -> None:
        self.done.set()
        super().close()


@contextmanager
def three_members(bootstrap: str, strategy: str) -> Iterator[tuple[Member, Working, Callable[[], Member]]]:
    """Give a reading member, one that handles a batch, three partitions each, and what lets a third join."""
    topic = f"gaps-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=PARTITIONS))
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "group_id": topic,
        "partition_assignment_strategy": strategy,
        "auto_offset_reset": "latest",
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "fetch_max_wait_ms": 100,
    }
    members: list[Member] = []

    def join() -> Member:
        members.append(Member(topic, options))
        return members[-1]

    with records_come(bootstrap, topic):
        try:
            steady = join()
            wait_until(lambda: len(steady.partitions) == PARTITIONS, "the first has everything")
            working = Working(topic, options)
            members.append(working)
            wait_until(lambda: [len(each.partitions) for each in members] == [3, 3], "two share")
            working.done.clear()
            wait_until(working.works.is_set, "the second works")
            yield steady, working, join
        finally:
            for each in reversed(members):
                each.close()


@pytest.mark.requirement("R14")
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_kept_partition_is_read_during_a_cooperative_rebalance_only(bootstrap: str, name: str) -> None:
    with (
        three_members(bootstrap, STRATEGIES[name]) as (steady, working, join),
        Admin(bootstrap_servers=bootstrap) as admin,
    ):
        group_id, before = str(steady.consumer.group_metadata().group_id), steady.partitions
        newcomer = join()
        wait_until(
            lambda: admin.describe_groups(group_id)[group_id].state == "PreparingRebalance",
            "the group waits for the member that works",
        )
        begun = len(steady.arrivals)

        def reads_on() -> bool:
            read = Counter(partition for _, partition in steady.arrivals[begun:])
            return min(read[each] for each in steady.partitions) >= RECORDS_OF_THREE_HEARTBEATS

        if name == "eager":
            wait_until(lambda: not steady.partitions, "the first gives everything up")
        else:
            wait_until(reads_on, "the first reads on what it keeps")
        assert not newcomer.partitions, "it waits for the member that works"
        read = Counter(partition for _, partition in steady.arrivals[begun:])
        assert not working.done.is_set()
        working.done.set()
        members = (steady, working, newcomer)
        wait_until(lambda: [len(each.partitions) for each in members] == [2, 2, 2], "three share")
        kept = before & steady.partitions
        assert len(kept) == 2
        if name == "cooperative":
            assert min(read[each] for each in kept) >= RECORDS_OF_THREE_HEARTBEATS
