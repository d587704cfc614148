"""The flusher with the real journal and real logs: what it has acknowledged outlives a power failure."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kohort.broker.config import BrokerConfig, topic_config
from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.flusher import WRITERS, Flusher
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.test_support import BareHost
from kohort.broker.runtime.workers import DaemonThreads
from kohort.protocol.records import build_batch, iterate_records, read_header
from kohort.storage import LogConfig, PartitionLog, StorageError
from kohort.storage.filesystem import StrPath
from kohort.storage.journal import Journal
from kohort.storage.layout import LEADER_EPOCH_CHECKPOINT
from kohort.storage.memory_filesystem import MemoryFileSystem

ROOT = Path("/data")
JOURNAL_BYTES = 4_096


class Disk(MemoryFileSystem):
    """A disk that tells when a log's leader epochs are written: the loop is at work meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None
        self.removes_nothing = False

    def remove(self, path: StrPath) -> None:
        if self.removes_nothing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().remove(path)

    def replace(self, path: StrPath, content: bytes, *, sync: bool = True) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None and os.fspath(path).endswith(LEADER_EPOCH_CHECKPOINT):
            meanwhile()
        super().replace(path, content, sync=sync)


def open_log(disk: MemoryFileSystem, topic: str, topic_id: UUID) -> PartitionLog:
    return PartitionLog.open(
        disk,
        ROOT / f"{topic}-0",
        topic=topic,
        topic_id=topic_id,
        index=0,
        config=LogConfig(),
        clean=False,
        recovery_point=0,
    )


class World:
    """A disk, a journal and a flusher, all real except for the loop."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.disk.make_directory(ROOT)
        self.journal = Journal(self.disk, ROOT, JOURNAL_BYTES)
        self.posted: list[Callable[[], None]] = []
        loop = SimpleNamespace(is_in_round=False, wake=lambda: None, post=self.posted.append)
        self.flusher = Flusher(
            cast(Any, loop), PartitionCounters(), self.journal, DaemonThreads("flush", WRITERS)
        )
        self.acknowledged: dict[str, list[bytes]] = {}
        self.promised: dict[str, int] = {}  # How many of them had been when the topic was last durable.
        self.ids: dict[str, UUID] = {}
        self.host = BareHost(lambda each: open_log(self.disk, each.topic, each.topic_id))

    def partition(self, topic: str, **configs: str) -> Partition:
        topic_id = self.ids[topic] = UUID(int=len(self.ids) + 1)
        partition = Partition(
            topic,
            topic_id,
            0,
            leader_epoch=0,
            config=topic_config(BrokerConfig(), configs),
            host=self.host,
        )
        partition.open()
        return partition

    def produce(self, partition: Partition, value: bytes) -> None:
        """Stage a record; it counts as acknowledged when the flusher says so."""
        partition.append_own(build_batch([(0, None, value, ())]))

        def done(error: StorageError | None) -> None:
            if error is None:
                acknowledged = self.acknowledged.setdefault(partition.topic, [])
                acknowledged.append(value)
                if partition.durable:
                    self.promised[partition.topic] = len(acknowledged)

        self.flusher.request(partition, done)

    def produced(self, partition: Partition, *values: bytes) -> None:
        """Produce each value in a round of its own."""
        for value in values:
            self.produce(partition, value)
            self.flusher.start_round()
            assert value in self.acknowledged[partition.topic]

    def configure(self, partition: Partition, flush_messages: int) -> None:
        partition.follow(topic_config(BrokerConfig(), {"flush.messages": str(flush_messages)}), 0)

    def empty_journal(self, partition: Partition) -> None:
        """Empty the journal, as before a log is truncated. Raises: StorageError."""
        answers: list[StorageError | None] = []
        self.flusher.when_unnamed(partition.log.log_id, answers.append)
        while not answers:
            self.flusher.start_round()
        if answers[0] is not None:
            raise answers[0]

    def after_power_failure(self, topic: str) -> list[bytes]:
        """Return the values that a start finds where everything was lost that was not synced."""
        survivor = self.disk.after_crash(choose=lambda _: 0)
        journal = Journal(survivor, ROOT, JOURNAL_BYTES)
        log = open_log(survivor, topic, self.ids[topic])
        journal.restore(log)
        return [record.value or b"" for batch in log.read_batches() for record in iterate_records(batch)]


def test_a_batch_staged_while_a_job_writes_is_synced_by_the_next_job() -> None:
    world = World()
    busy, other = world.partition("busy"), world.partition("other")
    world.produced(other, b"so that the journal is there")
    world.produce(busy, b"first")

    def stage_more() -> None:
        world.produce(busy, b"second")
        world.produce(other, b"which the journal takes together with it")

    world.disk.meanwhile = stage_more
    world.flusher.start_round()
    assert world.acknowledged["busy"] == [b"first", b"second"]
    assert world.after_power_failure("busy") == [b"first", b"second"]


def test_a_journaled_batch_never_follows_an_unsynced_one() -> None:
    world = World()
    partition = world.partition("orders", **{"flush.messages": "1000"})
    world.produced(partition, b"lax one", b"lax two")
    assert partition.log.flushed_offset == 0
    world.configure(partition, 1)
    world.produced(partition, b"strict")
    assert world.after_power_failure("orders") == [b"lax one", b"lax two", b"strict"]


def test_the_journal_does_not_overwrite_batches_of_a_log_that_became_lax() -> None:
    world = World()
    partition, other = world.partition("orders"), world.partition("other")
    world.produced(partition, b"acknowledged as durable")
    world.configure(partition, 1000)
    world.produced(partition, b"lax")
    for _ in range(2 * JOURNAL_BYTES // 500):
        world.produced(other, b"x" * 500)
    assert world.after_power_failure("orders")[:1] == [b"acknowledged as durable"]


@pytest.mark.parametrize("seed", range(20))
def test_acknowledged_batches_survive_any_change_of_settings(seed: int) -> None:
    """What was acknowledged while its topic was durable is found, whatever the topic was before or after."""
    dice, world = Random(seed), World()
    partitions = [world.partition(name) for name in ("a", "b", "c")]
    for number in range(120):
        partition = dice.choice(partitions)
        if dice.random() < 0.2:
            world.configure(partition, dice.choice((1, 1, 3, 1000)))
        if dice.random() < 0.1:
            world.disk.meanwhile = partial(world.produce, dice.choice(partitions), b"meanwhile %d" % number)
        world.produce(dice.choice(partitions), b"beside %d" % number)
        world.produced(partition, b"%d" % number)
        if dice.random() < 0.2:
            for topic, count in world.promised.items():
                found = world.after_power_failure(topic)
                assert found[:count] == world.acknowledged[topic][:count]


def test_a_deleted_topics_last_records_do_not_trouble_the_journal() -> None:
    world = World()
    partition, other = world.partition("orders"), world.partition("other")
    world.produced(partition, b"one", b"two")
    world.produce(partition, b"three")
    partition.close()
    while world.journal.has_room(500, 1):
        world.produced(other, b"x" * 300)
    world.produced(other, b"first of the next lap")
    world.flusher.start_round()
    assert world.acknowledged["orders"] == [b"one", b"two", b"three"]


# -- a follower's log -------------------------------------------------------------------------------------


def follow(world: World, topic: str) -> Partition:
    """Return a partition that takes a leader's batches."""
    partition = world.partition(topic)
    partition.stand_by()
    return partition


def replicate(world: World, partition: Partition, offset: int, value: bytes, epoch: int = 0) -> None:
    """Append a leader's batch of one record, which has this offset there, and have it flushed."""
    batch = bytearray(build_batch([(0, None, value, ())]))
    batch[:8] = offset.to_bytes(8, "big")
    batch[12:16] = epoch.to_bytes(4, "big")
    partition.log.stage_replicated(bytes(batch), (read_header(batch),))
    errors: list[StorageError | None] = []
    world.flusher.request(partition, errors.append)
    world.flusher.start_round()
    assert errors == [None]


def test_a_followers_batches_after_compacted_ones_survive_a_power_failure() -> None:
    world = World()
    partition = follow(world, "orders")
    for offset in (0, 1, 7, 8, 20):
        replicate(world, partition, offset, b"%d" % offset)
        assert partition.log.flushed_offset == offset + 1
    assert world.after_power_failure("orders") == [b"0", b"1", b"7", b"8", b"20"]


def test_truncated_batches_of_a_follower_do_not_replace_newer_ones() -> None:
    world = World()
    partition, other = follow(world, "orders"), world.partition("other")
    for offset in range(4):
        replicate(world, partition, offset, b"old %d" % offset)
    world.produced(other, b"beside it")
    world.empty_journal(partition)
    partition.log.truncate_to(2)
    for offset in (2, 3):
        replicate(world, partition, offset, b"new %d" % offset, epoch=1)
    partition.log.sync()
    assert world.after_power_failure("orders") == [b"old 0", b"old 1", b"new 2", b"new 3"]
    assert world.after_power_failure("other") == [b"beside it"]


def test_a_log_is_truncated_after_a_journal_failure_and_stays_so() -> None:
    world = World()
    partition, other = follow(world, "orders"), world.partition("other")
    for offset in range(3):
        replicate(world, partition, offset, b"old %d" % offset)
    world.disk.syncs_until_failure = 0  # The journal's; each log is synced by itself then.
    replicate(world, partition, 3, b"old 3")
    assert world.journal.failure is not None
    assert partition.log.flushed_offset == 4
    world.empty_journal(partition)
    assert world.journal.failure is None
    partition.log.truncate_to(2)
    for offset in (2, 3):
        replicate(world, partition, offset, b"new %d" % offset, epoch=1)
    world.produced(other, b"beside it")
    assert world.after_power_failure("orders") == [b"old 0", b"old 1", b"new 2", b"new 3"]
    assert world.after_power_failure("other") == [b"beside it"]


def test_a_failed_journal_is_deleted_before_a_log_is_truncated_if_no_other_can_be_created() -> None:
    world = World()
    partition = follow(world, "orders")
    replicate(world, partition, 0, b"old")
    world.disk.syncs_until_failure = 0
    replicate(world, partition, 1, b"old too")
    world.disk.syncs_until_failure = 0
    world.empty_journal(partition)
    assert world.journal.failure is not None
    partition.log.truncate_to(0)
    partition.log.sync()
    assert world.after_power_failure("orders") == []
    replicate(world, partition, 0, b"new", epoch=1)
    replicate(world, partition, 1, b"new too", epoch=1)
    assert world.journal.failure is None
    assert world.after_power_failure("orders") == [b"new", b"new too"]


def test_a_log_is_not_truncated_while_the_disk_refuses_deletions() -> None:
    world = World()
    partition = follow(world, "orders")
    replicate(world, partition, 0, b"old")
    world.disk.syncs_until_failure = 0
    replicate(world, partition, 1, b"old too")
    world.disk.syncs_until_failure = 0
    world.disk.removes_nothing = True
    with pytest.raises(StorageError, match="journal"):
        world.empty_journal(partition)
    world.disk.removes_nothing = False
    world.empty_journal(partition)  # By now it takes one.
    partition.log.truncate_to(0)
    partition.log.sync()
    assert world.after_power_failure("orders") == []


def test_a_failed_journal_is_replaced_as_soon_as_the_disk_accepts_one() -> None:
    world = World()
    first, second = world.partition("first"), world.partition("second")
    world.disk.syncs_until_failure = 0
    world.produced(first, b"the journal fails")
    assert world.journal.failure is not None
    world.produced(second, b"and works again")
    assert world.journal.failure is None
    world.produced(first, b"so that this is in it")
    assert first.log.synced_offset < first.log.flushed_offset, "only the journal has it"
    assert world.after_power_failure("first") == [b"the journal fails", b"so that this is in it"]
    assert world.after_power_failure("second") == [b"and works again"]
