"""What was cut, removed or replaced never comes back, from the journal or from what it kept.

All is real but the loop: flusher, journal, logs and partitions, on a disk that loses what was not synced. The
partition is opened again as `LogFiles` and `PartitionTable` do it.
"""

import pytest

from kohort.broker.config import BrokerConfig, topic_config
from kohort.broker.partitions.host import OpenedLog
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.test_flusher_durability import (
    JOURNAL_BYTES,
    ROOT,
    World,
    follow,
    open_log,
    replicate,
)
from kohort.protocol.records import build_batch, iterate_records, read_header
from kohort.storage import PartitionLog, StorageError
from kohort.storage.journal import KEPT_FILE, Journal

OLD = [b"old %d" % offset for offset in range(8)]
CUT = [*OLD[:4], b"new 4"]


def followed_up_to_8(world: World, topic: str = "orders") -> Partition:
    partition = follow(world, topic)
    for offset, value in enumerate(OLD):
        replicate(world, partition, offset, value)
    return partition


def fail(world: World, *partitions: Partition) -> None:
    """Let the disk be full for what these stage next."""
    world.disk.room_bytes = 0
    for partition in partitions:
        batch = bytearray(build_batch([(0, None, b"never acknowledged", ())]))
        batch[:8] = partition.log.log_end_offset.to_bytes(8, "big")
        world.flusher.request(partition, lambda error: None)
        partition.log.stage_replicated(bytes(batch), (read_header(batch),))
    world.flusher.start_round()
    world.disk.room_bytes = None
    assert all(each.offline is not None for each in partitions)


def open_again(world: World, partition: Partition, *, late: bool = False) -> None:
    """Open a failed log; with `late` the journal begins again before the loop sees it."""
    partition.log.close()
    opened = open_log(world.disk, partition.topic, partition.topic_id)
    world.journal.recall((opened.log_id,))
    world.journal.restore(opened)
    if late:
        fill_a_lap(world)
    world.journal.drop(opened.log_id)
    partition.reopened(OpenedLog(opened))


def fill_a_lap(world: World) -> None:
    """Write beside it until the journal has begun again."""
    other = world.partition(f"other {len(world.ids)}".replace(" ", "."))
    for _ in range(JOURNAL_BYTES // 300 + 1):
        world.produced(other, b"x" * 300)


def cut_and_go_on(world: World, partition: Partition, *, sync: bool = False) -> None:
    """Cut the follower's log at 4, and take a new leader's batch in its place."""
    world.empty_journal(partition)
    partition.log.truncate_to(4)
    replicate(world, partition, 4, b"new 4", epoch=1)
    if sync:
        partition.log.sync()
    assert partition.log.flushed_offset == 5


def after_kill(world: World, topic: str) -> PartitionLog:
    """Return the log that the next process finds where the process alone has died."""
    survivor = world.disk.after_crash()
    log = open_log(survivor, topic, world.ids[topic])
    Journal(survivor, ROOT, JOURNAL_BYTES).restore(log)
    return log


def values_of(log: PartitionLog) -> list[bytes]:
    return [record.value or b"" for batch in log.read_batches() for record in iterate_records(batch)]


def check_that_cut_stays_cut(world: World) -> None:
    assert world.after_power_failure("orders") == CUT
    found = after_kill(world, "orders")
    assert values_of(found) == CUT
    assert found.latest_epoch == 1


def test_the_kept_file_does_not_restore_batches_truncated_after_the_log_was_reopened() -> None:
    world = World()
    orders, broken = followed_up_to_8(world), follow(world, "broken")
    replicate(world, broken, 0, b"something")
    fail(world, orders, broken)
    fill_a_lap(world)
    assert world.disk.read(ROOT / KEPT_FILE)
    open_again(world, orders)
    assert orders.log.log_end_offset == 8
    cut_and_go_on(world, orders)
    check_that_cut_stays_cut(world)
    assert world.after_power_failure("broken") == [b"something"], "the other is still to be opened"


def test_a_deleted_kept_file_does_not_come_back_after_a_power_failure() -> None:
    world = World()
    orders = followed_up_to_8(world)
    fail(world, orders)
    fill_a_lap(world)
    open_again(world, orders)
    assert world.disk.read(ROOT / KEPT_FILE) is None
    cut_and_go_on(world, orders, sync=True)
    check_that_cut_stays_cut(world)


@pytest.mark.parametrize("late", [False, True], ids=["at once", "a lap later"])
@pytest.mark.parametrize("sync", [False, True], ids=["journaled", "synced"])
def test_batches_truncated_after_a_read_error_do_not_come_back(late: bool, sync: bool) -> None:
    world = World()
    orders = followed_up_to_8(world)
    orders.failed(StorageError("orders-0 cannot be read: EIO"))
    open_again(world, orders, late=late)
    cut_and_go_on(world, orders, sync=sync)
    check_that_cut_stays_cut(world)


def test_a_log_that_was_opened_again_outlives_the_next_laps_of_the_journal() -> None:
    world = World()
    orders = followed_up_to_8(world)
    orders.failed(StorageError("orders-0 cannot be read: EIO"))
    open_again(world, orders)
    fill_a_lap(world)
    fill_a_lap(world)
    assert orders.offline is None
    replicate(world, orders, 8, b"old 8")
    assert world.after_power_failure("orders") == [*OLD, b"old 8"]


def test_a_lap_that_starts_while_a_log_is_offline_keeps_its_batches() -> None:
    world = World()
    orders = followed_up_to_8(world)
    orders.failed(StorageError("orders-0 cannot be read: EIO"))
    fill_a_lap(world)
    assert world.after_power_failure("orders") == OLD
    open_again(world, orders)
    assert world.after_power_failure("orders") == OLD
    fill_a_lap(world)
    assert world.after_power_failure("orders") == OLD


def test_a_log_is_truncated_after_a_failed_sync_and_a_reopening() -> None:
    world = World()
    orders = followed_up_to_8(world)
    world.disk.syncs_until_failure = 0
    with pytest.raises(StorageError):
        orders.log.sync()
    orders.failed(StorageError("orders-0 cannot be synced"))
    open_again(world, orders)
    assert orders.log.log_end_offset == 8
    cut_and_go_on(world, orders)
    check_that_cut_stays_cut(world)


def removed_and_back(world: World, orders: Partition) -> Partition:
    """Take the replica from this broker, and give it back: the topic's id is the same."""
    orders.close()
    world.empty_journal(orders)
    orders.log.delete()
    again = Partition(
        "orders",
        orders.topic_id,
        0,
        leader_epoch=0,
        config=topic_config(BrokerConfig(), {}),
        host=world.host,
    )
    again.stand_by()
    again.open()
    return again


@pytest.mark.parametrize("was_offline", [False, True], ids=["open", "offline"])
@pytest.mark.parametrize("sync", [False, True], ids=["journaled", "synced"])
def test_a_replica_that_was_moved_away_and_back_has_no_old_batches(was_offline: bool, sync: bool) -> None:
    world = World()
    orders = followed_up_to_8(world)
    if was_offline:
        fail(world, orders)
    again = removed_and_back(world, orders)
    assert world.after_power_failure("orders") == []
    for offset in range(4):
        replicate(world, again, offset, OLD[offset])
    replicate(world, again, 4, b"new 4", epoch=1)
    if sync:
        again.log.sync()
    check_that_cut_stays_cut(world)
    fill_a_lap(world)
    assert again.offline is None
    check_that_cut_stays_cut(world)


def test_all_acknowledged_batches_are_durable_while_the_journal_is_emptied_for_one_log() -> None:
    world = World()
    orders, others = followed_up_to_8(world), [world.partition(f"other{each}") for each in range(20)]
    for other in others:
        world.produced(other, b"before")
    answers: list[StorageError | None] = []
    world.flusher.when_unnamed(orders.log.log_id, answers.append)
    for other in others:
        world.produce(other, b"meanwhile")
    world.flusher.start_round()
    assert answers == [None]
    for other in others:
        world.produced(other, b"behind")
        assert world.after_power_failure(other.topic) == [b"before", b"meanwhile", b"behind"]


def test_a_failing_callback_does_not_block_others_that_wait_for_an_empty_journal() -> None:
    world = World()
    orders = followed_up_to_8(world)
    answers: list[StorageError | None] = []

    def fails(_: StorageError | None) -> None:
        raise RuntimeError

    world.flusher.when_unnamed(orders.log.log_id, fails)
    world.flusher.when_unnamed(orders.log.log_id, answers.append)
    world.flusher.start_round()
    assert answers == [None]


def test_a_crash_during_a_truncation_leaves_the_log_whole_or_truncated() -> None:
    world = World()
    orders, broken = followed_up_to_8(world), follow(world, "broken")
    replicate(world, broken, 0, b"something")
    fail(world, orders, broken)
    fill_a_lap(world)
    open_again(world, orders)
    began = len(world.disk.operations)
    cut_and_go_on(world, orders)
    open_again(world, broken)
    replicate(world, orders, 5, b"new 5", epoch=1)
    whole = [OLD, OLD[:4], CUT, [*CUT, b"new 5"]]
    for count in range(began, len(world.disk.operations) + 1):
        for choose in (lambda _: 0, lambda limit: limit - 1):
            survivor = world.disk.after_crash(count, choose)
            found = open_log(survivor, "orders", world.ids["orders"])
            Journal(survivor, ROOT, JOURNAL_BYTES).restore(found)
            assert values_of(found) in whole, count
            other = open_log(survivor, "broken", world.ids["broken"])
            Journal(survivor, ROOT, JOURNAL_BYTES).restore(other)
            assert values_of(other) == [b"something"], count
