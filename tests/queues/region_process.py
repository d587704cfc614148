"""A member of a region that sums up numbers, or its coordinator, until it is killed.

python -m tests.queues.region_process ROLE BOOTSTRAP REGION TOPIC [slow]

ROLE is coordinator, or a member's name. A slow operator sleeps longer than the group's session at times.
"""

from __future__ import annotations

import logging
import sys
import threading
import time

import trio

from kohort.client import ConsumerRecord
from kohort.queues.region import Region, RegionCoordinator, RegionMember
from tests.queues.kmq_worker import options

SLEEP_S = 9.0
SESSION_MS = 6_000


class Sum:
    """Adds up, and counts."""

    def __init__(self) -> None:
        self.sum = self.count = 0

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        self.sum += int(record.value)
        self.count += 1

    def save(self, sequence_id: int) -> bytes:
        return b"%d %d" % (self.sum, self.count)

    def restore(self, state: bytes | None) -> None:
        self.sum, self.count = map(int, (state or b"0 0").split())


class SlowSum(Sum):
    """Sleeps with some values, as a computation does that lets nobody else run."""

    async def process(self, record: ConsumerRecord[bytes, bytes]) -> None:
        if is_slow(int(record.value)):
            time.sleep(SLEEP_S)
        await super().process(record)


def is_slow(value: int) -> bool:
    """Return whether a slow operator sleeps with this value."""
    return value % 1_000 == 7


def region_of(name: str, *, slow: bool) -> Region:
    """Return the region of three members that all these processes are of."""
    if slow:
        return Region(name, members=3, period_ms=2_000)
    return Region(name, members=3, period_ms=300, drain_timeout_ms=5_000, consecutive_resets_max=1_000)


async def main() -> None:
    """Be a member, or coordinate, until standard input ends."""
    role, bootstrap, name, topic, *slow = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    region = region_of(name, slow=bool(slow))
    process: RegionCoordinator | RegionMember
    found = options(bootstrap)
    if slow:
        found["session_timeout_ms"] = SESSION_MS
    if role == "coordinator":
        process = RegionCoordinator(region, **found)
    else:
        operator = SlowSum() if slow else Sum()
        process = RegionMember(region, role, operator, topics=[topic], **found)
    token = trio.lowlevel.current_trio_token()

    def stop_with_parent() -> None:
        sys.stdin.read()
        trio.from_thread.run_sync(process.stop, trio_token=token)

    threading.Thread(target=stop_with_parent, daemon=True).start()
    await process.run()


if __name__ == "__main__":
    trio.run(main)
