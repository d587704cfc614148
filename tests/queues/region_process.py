"""A member of a region that sums up numbers, or its coordinator, until it is killed.

python -m tests.queues.region_process ROLE BOOTSTRAP REGION TOPIC     ROLE is coordinator, or a member's name
"""

from __future__ import annotations

import logging
import sys
import threading

import trio

from kohort.client import ConsumerRecord
from kohort.queues.region import Region, RegionCoordinator, RegionMember
from tests.queues.kmq_worker import options


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


async def main() -> None:
    """Be a member, or coordinate, until standard input ends."""
    role, bootstrap, name, topic = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    region = Region(name, members=3, period_ms=300, drain_timeout_ms=5_000, consecutive_resets_max=1_000)
    process: RegionCoordinator | RegionMember
    if role == "coordinator":
        process = RegionCoordinator(region, **options(bootstrap))
    else:
        process = RegionMember(region, role, Sum(), topics=[topic], **options(bootstrap))
    token = trio.lowlevel.current_trio_token()

    def stop_with_parent() -> None:
        sys.stdin.read()
        trio.from_thread.run_sync(process.stop, trio_token=token)

    threading.Thread(target=stop_with_parent, daemon=True).start()
    await process.run()


if __name__ == "__main__":
    trio.run(main)
