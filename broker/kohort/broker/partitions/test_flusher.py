"""The flusher with logs whose writes the test watches, holds up and lets fail."""

import threading
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kohort.broker.partitions.counters import PartitionCounters
from kohort.broker.partitions.flusher import INLINE_BYTES_MAX, INLINE_LOGS_MAX, WRITERS, Flusher
from kohort.broker.runtime.workers import DaemonThreads
from kohort.storage import StorageError
from kohort.storage.journal import Written
from kohort.storage.layout import LogId, log_id_of
from kohort.storage.staging import Staged


class Disk:
    """A log and its partition in one: the staged, written and acknowledged batches."""

    def __init__(self, name: str, said: list[str], *, durable: bool = True) -> None:
        self.topic, self.index, self.durable = name, 0, durable
        self.log = self
        self.staged_bytes = 0
        self.log_id = log_id_of(UUID(int=int.from_bytes(name.encode())), 0)
        self.serving_log = self
        self.role = SimpleNamespace(is_closed=False, replicated=False, leadership=None)
        self.deleted = False
        self.sync_due = False
        self.failures = 0
        self.end_offset = 0
        self.written_offset = 0
        self.is_durable, self.needs_journal, self.rolls = True, False, False
        self.unsynced_bytes = 0
        self.durable_to: list[int] = []
        self.writes: list[tuple[int, bool, str]] = []
        self.error: StorageError | None = None
        self.sync_error: StorageError | None = None
        self.gate: threading.Event | None = None
        self.writing = 0
        self._said = said

    def take_staged(self) -> Staged:
        self.end_offset += 1
        size_bytes, self.staged_bytes = self.staged_bytes, 0
        batches = cast(Any, [bytes(size_bytes)])
        return Staged(batches, self.end_offset, size_bytes)

    def write_staged(self, staged: Staged, *, sync: bool) -> None:
        self.writing += 1
        assert self.writing == 1, "two writes of one log at once"
        if self.gate is not None:
            assert self.gate.wait(5)
        self.writes.append((staged.size_bytes, sync, threading.current_thread().name))
        self.written_offset = staged.end_offset
        self.writing -= 1
        if self.error is not None:
            raise self.error
        if sync and self.sync_error is not None:
            raise self.sync_error
        if sync:
            self.needs_journal = False

    def sync(self) -> None:
        self.write_staged(Staged((), self.written_offset, 0), sync=True)

    def rolls_with(self, staged: Staged) -> bool:
        return self.rolls

    def wants_sync(self) -> bool:
        return self.durable or self.sync_due

    def became_durable(self, end_offset: int) -> None:
        self.durable_to.append(end_offset)
        self.needs_journal = True

    def committed(self, end_offset: int) -> None:
        self._said.append(f"{self.topic} committed")

    def failed(self, error: StorageError) -> None:
        self._said.append(f"{self.topic} failed")


class FakeJournal:
    """A journal that remembers how many entries each sync was for."""

    def __init__(self) -> None:
        self.room = False
        self.error: StorageError | None = None
        self.failure: StorageError | None = None
        self.appended: list[int] = []
        self.recalled: list[Collection[LogId]] = []
        self.released: list[object] = []
        self.before_append: Callable[[], None] = lambda: None
        self.restarts = 0

    def has_room(self, size_bytes: int, entries: int) -> bool:
        return self.room

    def append(self, written: list[Written]) -> None:
        self.before_append()
        if self.error is not None:
            raise self.error
        self.appended.append(len(written))
        for each in written:
            each.log.became_durable(each.log.written_offset)

    def release(self, log: object) -> None:
        self.released.append(log)

    def recall(self, logs: Collection[LogId]) -> None:
        self.recalled.append(logs)

    def restart(self) -> None:
        self.restarts += 1


class World:
    def __init__(self) -> None:
        self.journal = FakeJournal()
        self.said: list[str] = []
        self.posted: list[Any] = []
        self.arrived = threading.Semaphore(0)
        self.counters = PartitionCounters()
        reactor = SimpleNamespace(is_in_round=False, wake=lambda: None, post=self._post)
        self.flusher = Flusher(
            cast(Any, reactor),
            self.counters,
            cast(Any, self.journal),
            DaemonThreads("flush", WRITERS),
        )

    def _post(self, action: Any) -> None:
        self.posted.append(action)
        self.arrived.release()

    def stage(self, disk: Disk, size_bytes: int, name: str) -> None:
        disk.staged_bytes += size_bytes
        self.flusher.request(cast(Any, disk), lambda error: self.said.append(f"{name} {error or 'done'}"))

    def take_posted(self) -> None:
        assert self.arrived.acquire(timeout=5)
        self.posted.pop(0)()


def test_batches_staged_in_a_round_are_written_once_and_answered_in_order() -> None:
    world = World()
    disk = Disk("a", world.said)
    world.stage(disk, 10, "first")
    world.stage(disk, 20, "second")
    world.flusher.start_round()
    assert disk.writes == [(30, True, "MainThread")]
    assert world.said == ["a committed", "first done", "second done"]
    assert not world.flusher.busy


def test_a_partition_that_need_not_be_durable_is_not_synced() -> None:
    world = World()
    disk = Disk("a", world.said, durable=False)
    world.stage(disk, 10, "first")
    world.flusher.start_round()
    assert disk.writes == [(10, False, "MainThread")]


def test_a_failure_is_reported_only_to_the_waiters_of_that_log() -> None:
    world = World()
    bad, good = Disk("bad", world.said), Disk("good", world.said)
    bad.error = StorageError("no space left")
    world.stage(bad, 10, "one")
    world.stage(good, 10, "two")
    world.flusher.start_round()
    assert world.said == ["bad failed", "one no space left", "good committed", "two done"]
    assert world.counters.flush_failures == 1


def test_a_large_unsynced_part_of_a_log_is_not_synced_by_the_loop() -> None:
    world = World()
    disk = Disk("a", world.said)
    disk.is_durable, disk.unsynced_bytes = False, INLINE_BYTES_MAX + 1
    world.stage(disk, 10, "first")
    world.flusher.start_round()
    world.take_posted()
    assert [name[:6] for _, _, name in disk.writes] == ["flush-"]
    world.flusher.close()


def test_a_log_that_became_lax_is_synced_once_so_that_the_journal_can_restart() -> None:
    world = World()
    disk = Disk("a", world.said)
    world.journal.room = True
    world.stage(disk, 10, "journaled")
    world.flusher.start_round()
    assert disk.needs_journal
    disk.durable = False
    for name in ("synced", "lax"):
        world.stage(disk, 10, name)
        world.flusher.start_round()
    assert [sync for _, sync, _ in disk.writes] == [False, True, False]
    assert not disk.needs_journal


def test_a_large_round_is_written_by_a_worker_and_answered_in_the_loop() -> None:
    world = World()
    disk = Disk("a", world.said)
    world.stage(disk, INLINE_BYTES_MAX + 1, "large")
    world.flusher.start_round()
    assert world.flusher.busy
    world.take_posted()
    assert disk.writes[0][2].startswith("flush-")
    assert world.said == ["a committed", "large done"]
    world.flusher.close()


def test_a_log_is_never_written_by_two_at_once() -> None:
    world = World()
    disk, other = Disk("a", world.said), Disk("b", world.said)
    disk.gate = threading.Event()
    world.stage(disk, INLINE_BYTES_MAX + 1, "large")
    world.flusher.start_round()
    world.stage(disk, 5, "later")
    world.stage(other, 5, "other")
    world.flusher.start_round()
    assert world.said == ["b committed", "other done"]
    disk.gate.set()
    world.take_posted()
    world.flusher.start_round()
    assert world.said[2:] == ["a committed", "large done", "a committed", "later done"]
    world.flusher.close()


def test_a_batch_prepared_at_the_end_of_a_round_is_flushed_in_it() -> None:
    world = World()
    disk = Disk("a", world.said)
    world.flusher.prepare(lambda: world.stage(disk, 10, "prepared"))
    world.flusher.start_round()
    assert world.said == ["a committed", "prepared done"]


def test_a_batch_staged_by_an_answer_is_flushed_in_the_same_round() -> None:
    world = World()
    disk = Disk("a", world.said)
    disk.staged_bytes = 1
    world.flusher.request(cast(Any, disk), lambda error: world.stage(disk, 2, "second"))
    world.flusher.start_round()
    assert [size for size, _, _ in disk.writes] == [1, 2]


def test_a_disk_that_syncs_slowly_is_written_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    disk = Disk("a", world.said)
    monkeypatch.setattr("kohort.broker.partitions.flusher.INLINE_SYNC_SECONDS_MAX", -1.0)
    world.stage(disk, 1, "small")
    world.flusher.start_round()
    world.take_posted()
    assert disk.writes[0][2].startswith("flush-")
    world.flusher.close()


def test_a_small_round_is_synced_once_for_all_logs_by_the_journal() -> None:
    world = World()
    world.journal.room = True
    disks = [Disk(name, world.said) for name in "abc"]
    for disk in disks:
        world.stage(disk, 10, "commit")
    world.flusher.start_round()
    assert world.journal.appended == [3]
    assert [disk.writes for disk in disks] == [[(10, False, "MainThread")]] * 3
    assert [disk.durable_to for disk in disks] == [[1]] * 3
    assert world.said.count("commit done") == 3


def test_after_a_journal_failure_each_log_is_synced_and_answered_alone() -> None:
    world = World()
    world.journal.room = True
    world.journal.error = StorageError("gone")
    good, bad = Disk("good", world.said), Disk("bad", world.said)
    for disk in (good, bad):
        world.stage(disk, 10, disk.topic)
    bad.sync_error = StorageError("i/o error")
    world.flusher.start_round()
    assert world.said == ["good committed", "good done", "bad failed", "bad i/o error"]
    assert [write[:2] for write in good.writes] == [(10, False), (0, True)]


def test_a_full_journal_restarts_after_every_log_in_it_was_synced() -> None:
    world = World()
    world.journal.room = True
    first, second = Disk("first", world.said), Disk("second", world.said)
    world.stage(first, 10, "one")
    world.flusher.start_round()
    world.journal.room = False
    world.stage(second, 10, "two")
    world.flusher.start_round()
    assert first.writes == [(10, False, "MainThread"), (0, True, "MainThread")]
    assert second.writes == [(10, True, "MainThread")]
    assert world.journal.restarts == 1


def test_a_log_that_fails_when_the_journal_is_full_finds_its_batches_there_again() -> None:
    world = World()
    world.journal.room = True
    bad = Disk("bad", world.said)
    world.stage(bad, 10, "acknowledged")
    world.flusher.start_round()
    world.journal.room = False
    bad.error = StorageError("i/o error")
    world.stage(Disk("other", world.said), 10, "other")
    world.flusher.start_round()
    assert world.journal.recalled == [[bad.log_id]]
    assert "bad failed" in world.said


def test_the_journal_does_not_restart_while_a_worker_writes_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.journal.room = True
    slow, other = Disk("slow", world.said), Disk("other", world.said)
    slow.gate = threading.Event()
    monkeypatch.setattr("kohort.broker.partitions.flusher.INLINE_SYNC_SECONDS_MAX", -1.0)
    world.stage(slow, 10, "slow")
    world.flusher.start_round()
    world.journal.room = False  # The other round finds it full; what the worker writes needs its place.
    world.stage(other, 10, "other")
    world.flusher.start_round()
    assert world.journal.restarts == 0
    slow.gate.set()
    while world.flusher.busy:
        world.take_posted()
        world.flusher.start_round()
    world.flusher.close()


def test_batches_that_arrive_during_a_journal_sync_share_the_next_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.journal.room = True
    slow = Disk("slow", world.said)
    slow.gate = threading.Event()
    monkeypatch.setattr("kohort.broker.partitions.flusher.INLINE_SYNC_SECONDS_MAX", -1.0)
    world.stage(slow, 10, "slow")
    world.flusher.start_round()
    for number in range(3):
        world.stage(Disk(f"other{number}", world.said), 10, f"other{number}")
        world.flusher.start_round()
    assert world.journal.appended == [], "the worker is still writing, and nobody beside it"
    slow.gate.set()
    while world.flusher.busy:
        world.take_posted()
        world.flusher.start_round()
    world.flusher.close()
    assert world.journal.appended == [1, 3]


def test_a_slow_journal_sync_counts_as_a_slow_disk_for_any_number_of_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.journal.room = True
    seconds = [0.0]
    monkeypatch.setattr("kohort.broker.partitions.flusher.time.perf_counter", lambda: seconds[0])

    def take_two_milliseconds() -> None:
        seconds[0] += 0.002

    world.journal.before_append = take_two_milliseconds
    disks = [Disk(str(number), world.said) for number in range(50)]
    rounds = 0
    while not world.posted:
        assert rounds < 10, "the loop waits for a slow disk in every round"
        rounds += 1
        for disk in disks:
            world.stage(disk, 10, "commit")
        world.flusher.start_round()
        while world.flusher.busy and not world.posted:
            world.arrived.acquire(timeout=5)
    world.flusher.close()


def test_the_loop_does_not_wait_while_many_logs_are_synced_for_the_journal() -> None:
    world = World()
    world.journal.room = True
    disks = [Disk(str(number), world.said) for number in range(INLINE_LOGS_MAX + 1)]
    for disk in disks:
        world.stage(disk, 10, "commit")
    world.flusher.start_round()
    world.journal.room = False
    world.stage(Disk("other", world.said), 10, "other")
    world.flusher.start_round()
    world.take_posted()
    assert all(disk.writes[-1][:2] == (0, True) for disk in disks)
    assert all(disk.writes[-1][2].startswith("flush-") for disk in disks)
    world.stage(Disk("last", world.said), 10, "last")
    world.flusher.start_round()
    assert world.journal.restarts == 1
    world.flusher.close()


def test_a_round_that_starts_a_segment_is_written_by_a_worker() -> None:
    world = World()
    disk = Disk("a", world.said)
    disk.rolls = True
    world.stage(disk, 10, "first of its segment")
    world.flusher.start_round()
    world.take_posted()
    assert disk.writes[0][2].startswith("flush-")
    world.flusher.close()


def test_a_bug_in_a_write_fails_its_partitions_and_not_the_flusher() -> None:
    world = World()
    world.journal.room = True

    def meet_a_bug() -> None:
        raise AssertionError("a bug")

    world.journal.before_append = meet_a_bug
    disk = Disk("a", world.said)
    world.stage(disk, 10, "first")
    world.flusher.start_round()
    assert world.said[0] == "a failed"
    assert "impossible state" in world.said[1]
    assert not world.flusher.busy


def test_an_answer_that_fails_is_not_felt_by_the_other_partitions_of_its_job() -> None:
    world = World()
    first, second = Disk("a", world.said), Disk("b", world.said)

    def fail(error: StorageError | None) -> None:
        raise RuntimeError("a bug")

    first.staged_bytes = 1
    world.flusher.request(cast(Any, first), fail)
    world.stage(second, 1, "second")
    world.flusher.start_round()
    assert "second done" in world.said
    assert not world.flusher.busy
