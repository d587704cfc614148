"""A follower's log that is to be cut, and what happens to it meanwhile; disk, journal, flusher are real."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import trio

from kohort.broker.cluster.appending import Appending
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.test_flusher_durability import World, replicate
from kohort.broker.partitions.test_journal_names import OLD, fail, followed_up_to_8, open_again
from kohort.broker.replication import Truncate
from kohort.broker.runtime.clock import ManualClock
from kohort.broker.runtime.turns import NoTurns


class Table:
    """Lets a log be cut behind a write that was under way; right behind that the log fails."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.asked = 0

    async def between_writes(self, partition: Partition, action: Callable[[], None]) -> None:
        self.asked += 1
        if self.asked == 1:
            replicate(self._world, partition, 8, b"under way")
        action()
        if self.asked == 1:
            fail(self._world, partition)


async def test_a_log_that_fails_before_a_truncation_keeps_records_that_only_the_journal_has() -> None:
    world = World()
    orders, table = followed_up_to_8(world), Table(world)
    following = cast("Any", SimpleNamespace(high_watermark=8))
    orders.follow_leader(following)
    appending = Appending(cast("Any", table), world.flusher, ManualClock(), NoTurns())

    async def rounds() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            world.flusher.start_round()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(rounds)
        await appending.cut(orders, following, Truncate(4))
        nursery.cancel_scope.cancel()
    assert world.after_power_failure("orders") == [*OLD, b"under way"]
    open_again(world, orders)
    assert orders.log.log_end_offset == 9
    assert table.asked == 1
