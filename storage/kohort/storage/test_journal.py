"""The journal between two lives of a broker: what a log lost is taken from it, and nothing else."""

import os
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, iterate_records, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog, StorageError
from kohort.storage.filesystem import File, FileSystem, StrPath
from kohort.storage.journal import JOURNAL_FILE, KEPT_FILE, Journal, Written, journal_entries
from kohort.storage.memory_filesystem import MemoryFile, MemoryFileSystem

SMALL_BYTES = 4_096


def open_log(root: Path, index: int = 0, file_system: FileSystem | None = None) -> PartitionLog:
    return PartitionLog.open(
        file_system or OsFileSystem(),
        root / f"commits-{index}",
        topic="commits",
        topic_id=UUID(int=7),
        index=index,
        config=LogConfig(),
        clean=False,
        recovery_point=0,
    )


def commit(journal: Journal, log: PartitionLog, *values: bytes, index: int = 0) -> None:
    """Write each value as a batch of its own, synced by the journal alone."""
    for value in values:
        batch = build_batch([(0, b"key", value, ())])
        log.stage(batch, (read_header(batch),), 3)
    staged = log.take_staged()
    log.write_staged(staged, sync=False)
    journal.append([Written(log, staged.batches)])


def values_of(log: PartitionLog) -> list[bytes | None]:
    return [record.value for batch in log.read_batches() for record in iterate_records(batch)]


def lose_unsynced_bytes(root: Path, size_bytes: int, index: int = 0) -> None:
    """Cut a log's file as a power failure may, which keeps the journal but not the page cache."""
    os.truncate(root / f"commits-{index}" / f"{0:020d}.log", size_bytes)


def test_batches_lost_by_a_log_are_restored_from_the_journal(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one")
    commit(journal, log, b"two", b"three")
    assert log.flushed_offset == 3
    lose_unsynced_bytes(tmp_path, 0)
    again, reopened = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    assert values_of(reopened) == []
    assert again.orphaned == 1
    assert again.restore(reopened) == 3
    assert values_of(reopened) == [b"one", b"two", b"three"]
    assert reopened.flushed_offset == 3
    assert reopened.latest_epoch == 3
    assert again.orphaned == 0


def test_a_log_that_begins_anew_names_its_folder_before_the_journal_has_batches() -> None:
    """Otherwise a power failure may leave some batches in a folder of nobody.

    A start sets that aside, and a new log would begin at 0, where the journal's batches do not fit.
    """
    file_system, topic_id = MemoryFileSystem(), UUID(int=7)
    directory = DataDirectory.open(Path("/data"), file_system)
    directory.create_partitions([("commits", topic_id, 0)])
    log = directory.open_log("commits", topic_id, 0, LogConfig())
    log.restart_at(73)
    commit(Journal(file_system, Path("/data")), log, b"one", b"two")
    assert log.is_durable
    assert log.synced_offset == 73
    for seed in range(20):
        left = file_system.after_crash(choose=Random(seed).randrange)
        directory = DataDirectory.open(Path("/data"), left)
        assert [each.topic_id for each in directory.partitions()] == [topic_id]
        reopened = directory.open_log("commits", topic_id, 0, LogConfig())
        Journal(left, Path("/data")).restore(reopened)
        assert (reopened.log_start_offset, values_of(reopened)) == (73, [b"one", b"two"])


def test_a_log_restores_only_missing_batches(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one")
    size_bytes = log.size_bytes
    commit(journal, log, b"two")
    lose_unsynced_bytes(tmp_path, size_bytes + 5)
    reopened = open_log(tmp_path)
    assert Journal(OsFileSystem(), tmp_path).restore(reopened) == 1
    assert values_of(reopened) == [b"one", b"two"]
    assert Journal(OsFileSystem(), tmp_path).restore(reopened) == 0
    assert values_of(reopened) == [b"one", b"two"]


def test_each_log_restores_its_own_batches(tmp_path: Path) -> None:
    journal = Journal(OsFileSystem(), tmp_path)
    logs = [open_log(tmp_path, index) for index in range(3)]
    for index, log in enumerate(logs):
        commit(journal, log, b"of %d" % index, index=index)
        lose_unsynced_bytes(tmp_path, 0, index)
    again = Journal(OsFileSystem(), tmp_path)
    for index in range(3):
        reopened = open_log(tmp_path, index)
        assert again.restore(reopened) == 1
        assert values_of(reopened) == [b"of %d" % index]


def test_entries_kept_for_one_log_do_not_fill_the_journal(tmp_path: Path) -> None:
    """One log cannot be opened; the others fill the journal twice, and the broker dies once more."""
    journal, offline, other = Journal(OsFileSystem(), tmp_path), open_log(tmp_path), open_log(tmp_path, 1)
    commit(journal, offline, b"one", b"two")
    lose_unsynced_bytes(tmp_path, 0)
    again = Journal(OsFileSystem(), tmp_path, SMALL_BYTES)
    again.forget(but=[offline.log_id])
    for _ in range(2):
        while again.has_room(200, 1):
            commit(again, other, b"x" * 100, index=1)
        other.sync()
        again.restart()
    assert again.orphaned == 1
    third, reopened = Journal(OsFileSystem(), tmp_path, SMALL_BYTES), open_log(tmp_path)
    assert third.restore(reopened) == 2
    assert values_of(reopened) == [b"one", b"two"]
    third.forget()
    assert not (tmp_path / KEPT_FILE).exists()


def test_entries_of_a_log_that_failed_meanwhile_are_not_forgotten(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one")
    lose_unsynced_bytes(tmp_path, 0)
    journal.recall((log.log_id,))  # Its log has failed, while the start opens the others.
    journal.forget()
    assert journal.restore(open_log(tmp_path)) == 1
    journal.forget()
    assert journal.orphaned == 0


def test_entries_that_are_forgotten_while_the_journal_is_used_leave_no_file(tmp_path: Path) -> None:
    journal, gone, other = Journal(OsFileSystem(), tmp_path), open_log(tmp_path), open_log(tmp_path, 1)
    commit(journal, gone, b"one")
    again = Journal(OsFileSystem(), tmp_path)
    commit(again, other, b"two", index=1)
    assert (tmp_path / KEPT_FILE).exists()
    again.forget()
    assert not (tmp_path / KEPT_FILE).exists()


def test_entries_forgotten_beside_kept_ones_are_gone_while_the_journal_is_used(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    offline, other = open_log(tmp_path, 1), open_log(tmp_path, 2)
    commit(journal, log, b"one")
    commit(journal, offline, b"two", index=1)
    again = Journal(OsFileSystem(), tmp_path)
    commit(again, other, b"three", index=2)
    assert again.may_name(log.log_id)
    again.forget(but=[offline.log_id])
    assert not again.may_name(log.log_id)
    third = Journal(OsFileSystem(), tmp_path)
    assert (third.end_offset(log.log_id), third.end_offset(offline.log_id)) == (0, 1)


def test_if_entries_cannot_be_kept_the_journal_is_given_up(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one")
    (tmp_path / f"{KEPT_FILE}.tmp").mkdir()
    lose_unsynced_bytes(tmp_path, 0)
    again = Journal(OsFileSystem(), tmp_path)
    with pytest.raises(StorageError, match="used no more"):
        commit(again, open_log(tmp_path, 1), b"other", index=1)
    assert not again.has_room(1, 1)
    assert Journal(OsFileSystem(), tmp_path).restore(open_log(tmp_path)) == 1


def test_a_batch_after_an_unsynced_one_is_refused(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    batch = build_batch([(0, None, b"lax", ())])
    log.stage(batch, (read_header(batch),), 0)
    log.write(sync=False)
    with pytest.raises(AssertionError, match="a batch at 1 behind what is synced up to 0"):
        commit(journal, log, b"strict")


def test_the_journal_does_not_restart_before_its_logs_are_synced(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one")
    with pytest.raises(AssertionError, match="only the journal has"):
        journal.restart()
    log.sync()
    journal.restart()


def test_entries_of_an_earlier_lap_are_ignored(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path, SMALL_BYTES), open_log(tmp_path)
    commit(journal, log, b"first lap, one")
    commit(journal, log, b"first lap, two")
    log.write(sync=True)
    journal.restart()
    commit(
        journal, log, b"second lap, 01"
    )  # As long as the first lap's: the second entry is whole behind it.
    lose_unsynced_bytes(tmp_path, 0)
    reopened = open_log(tmp_path)
    again = Journal(OsFileSystem(), tmp_path, SMALL_BYTES)
    assert again.restore(reopened) == 0, "an entry of offset 2 has no place in an empty log"
    assert again.orphaned == 0


def test_a_torn_entry_ends_the_journal_for_good(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path, SMALL_BYTES), open_log(tmp_path)
    commit(journal, log, b"one")
    whole = Journal(OsFileSystem(), tmp_path)
    commit(journal, log, b"two")
    commit(journal, log, b"six")
    path = tmp_path / JOURNAL_FILE
    content = bytearray(path.read_bytes())
    content[content.index(b"two")] ^= 1
    path.write_bytes(content)
    lose_unsynced_bytes(tmp_path, 0)
    reopened = open_log(tmp_path)
    again = Journal(OsFileSystem(), tmp_path, SMALL_BYTES)
    assert again.restore(reopened) == 1
    assert values_of(reopened) == [b"one"]
    commit(again, reopened, b"TWO")  # Begins at the start; what was torn away must stay away.
    lose_unsynced_bytes(tmp_path, 0)
    third = open_log(tmp_path)
    Journal(OsFileSystem(), tmp_path, SMALL_BYTES).restore(third)
    assert values_of(third) == []
    assert whole.orphaned == 1


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_truncated_file_loses_only_the_entries_that_are_cut(tmp_path: Path, cut: int) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path, SMALL_BYTES), open_log(tmp_path)
    committed = [b"%d" % number for number in range(5)]
    path, ends = tmp_path / JOURNAL_FILE, []
    for value in committed:
        commit(journal, log, value)
        ends.append(len(path.read_bytes().rstrip(b"\0")) + 1)  # A record ends with its number of headers.
    size_bytes = ends[-1] - cut
    path.write_bytes(path.read_bytes()[:size_bytes])
    lose_unsynced_bytes(tmp_path, 0)
    reopened = open_log(tmp_path)
    Journal(OsFileSystem(), tmp_path, SMALL_BYTES).restore(reopened)
    assert values_of(reopened) == committed[: sum(end <= size_bytes for end in ends)]


def test_a_failed_log_is_given_its_acknowledged_batches_of_this_process(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one")
    commit(journal, open_log(tmp_path, 1), b"other", index=1)
    journal.recall((log.log_id,))
    assert journal.orphaned == 1
    lose_unsynced_bytes(tmp_path, 0)
    reopened = open_log(tmp_path)
    assert journal.restore(reopened) == 1
    assert values_of(reopened) == [b"one"]
    assert journal.orphaned == 0


def test_batches_that_a_failed_log_may_lack_survive_the_next_lap(tmp_path: Path) -> None:
    journal, log, other = Journal(OsFileSystem(), tmp_path), open_log(tmp_path), open_log(tmp_path, 1)
    commit(journal, log, b"one")
    commit(journal, other, b"other", index=1)
    journal.recall((log.log_id,))
    journal.release(log.log_id)
    other.sync()
    journal.restart()
    commit(journal, other, b"written over the first", index=1)
    journal.recall((log.log_id,))  # Another attempt to open it, while the journal says nothing of it.
    lose_unsynced_bytes(tmp_path, 0)
    assert Journal(OsFileSystem(), tmp_path).restore(open_log(tmp_path)) == 1
    lose_unsynced_bytes(tmp_path, 0)
    assert journal.restore(open_log(tmp_path)) == 1


def test_a_clean_stop_leaves_no_journal(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one")
    log.close()
    journal.close()
    assert not (tmp_path / JOURNAL_FILE).exists()


class NoSync(OsFileSystem):
    """A file system whose syncs fail."""

    def open(self, path: StrPath, *, create: bool = False) -> File:
        file = super().open(path, create=create)

        def fail() -> None:
            raise OSError(5, "Input/output error")

        class Failing:
            file_descriptor = file.file_descriptor
            size, read_at, write_at = file.size, file.read_at, file.write_at
            truncate, sync, reread = file.truncate, staticmethod(fail), staticmethod(fail)
            keep = file

        return Failing()


def test_a_sync_that_fails_ends_the_use_of_the_journal(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    journal = Journal(NoSync(), tmp_path)
    with pytest.raises(StorageError, match="used no more"):
        commit(journal, log, b"one")
    assert log.flushed_offset == 0
    assert not journal.has_room(1, 1)
    with pytest.raises(StorageError, match="used no more"):
        commit(journal, log, b"two")


def test_a_log_with_journaled_batches_is_synced_before_the_journal_restarts() -> None:
    file_system = MemoryFileSystem()
    root = Path("/data")
    file_system.make_directory(root)
    journal = Journal(file_system, root, 4096)
    log = open_log(root, file_system=file_system)
    commit(journal, log, b"acknowledged")
    log.write(sync=True)
    journal.restart()
    survivor = file_system.after_crash(choose=lambda _: 0)  # Whatever may be lost is lost.
    survivor.remove(root / JOURNAL_FILE)
    assert values_of(open_log(root, file_system=survivor)) == [b"acknowledged"]


def test_batches_lost_by_a_failed_sync_are_written_again_although_the_log_shows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryFile, "reread", MemoryFile.sync)  # As where a cache cannot be dropped.
    root, disk = Path("/data"), MemoryFileSystem()
    log = open_log(root, file_system=disk)
    commit(Journal(disk, root), log, b"one", b"two")
    disk.syncs_until_failure = 0
    with pytest.raises(StorageError):
        open_log(root, file_system=disk)  # After a kill: its recovery syncs what it found.
    shown = open_log(root, file_system=disk)  # The page cache has it, so this time all seems well.
    assert values_of(shown) == [b"one", b"two"]
    assert Journal(disk, root).restore(shown) == 0
    disk.remove(root / JOURNAL_FILE)
    after_power_failure = disk.after_crash(choose=lambda _: 0)
    assert values_of(open_log(root, file_system=after_power_failure)) == [b"one", b"two"]


def test_the_journal_stays_until_every_log_is_synced() -> None:
    """A power failure while the logs are being closed: what the journal alone had synced is taken from it."""
    file_system = MemoryFileSystem()
    directory = DataDirectory.open(Path("/data"), file_system)
    journal = Journal(file_system, Path("/data"), 10_000)
    log = directory.open_log("t", UUID(int=7), 0, LogConfig())
    batch = build_batch([(1, None, b"kept", ())])
    log.stage(batch, (read_header(batch),), 0)
    staged = log.take_staged()
    log.write_staged(staged, sync=False)
    journal.append([Written(log, staged.batches)])
    begin = len(file_system.operations)
    directory.close(when_sound=journal.close)
    for operations in range(begin, len(file_system.operations) + 1):
        survivor = file_system.after_crash(operations, lambda limit: 0)
        directory = DataDirectory.open(Path("/data"), survivor)
        found = directory.open_log("t", UUID(int=7), 0, LogConfig())
        Journal(survivor, Path("/data"), 10_000).restore(found)
        assert found.log_end_offset == 1, f"lost behind operation {operations}"


def test_a_log_with_nothing_to_write_does_not_end_the_journal(tmp_path: Path) -> None:
    journal, idle, busy = Journal(OsFileSystem(), tmp_path), open_log(tmp_path, 0), open_log(tmp_path, 1)
    commit(journal, busy, b"one", index=1)
    journal.append([Written(idle, idle.take_staged().batches)])
    commit(journal, busy, b"two", index=1)
    lose_unsynced_bytes(tmp_path, 0, 1)
    reopened = open_log(tmp_path, 1)
    assert Journal(OsFileSystem(), tmp_path).restore(reopened) == 2
    assert values_of(reopened) == [b"one", b"two"]


def test_nothing_is_written_after_bytes_that_the_disk_lacks() -> None:
    root, disk = Path("/data"), MemoryFileSystem()
    log = open_log(root, file_system=disk)
    disk.syncs_until_failure = 1  # Behind the one of the file that says whose the log is.
    batch = build_batch([(0, b"key", b"never acknowledged", ())])
    log.stage(batch, (read_header(batch),), 3)
    with pytest.raises(StorageError):
        log.write(sync=True)
    del log  # The process is killed before it can cut the file; the page cache outlives it.
    again = open_log(root, file_system=disk)
    assert values_of(again) == []
    commit(Journal(disk, root), again, b"one")
    again.write(sync=True)
    after_power_failure = disk.after_crash(choose=lambda _: 0)
    assert values_of(open_log(root, file_system=after_power_failure)) == [b"one"]


def test_a_wiped_journal_does_not_restore_truncated_batches(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    assert not journal.may_name(log.log_id)
    commit(journal, log, b"one", b"two", b"three")
    assert journal.may_name(log.log_id)
    log.sync()
    journal.restart()
    assert journal.may_name(log.log_id), "the lap before is still in the file"
    journal.wipe()
    assert not journal.may_name(log.log_id)
    log.truncate_to(1)
    assert journal_of(tmp_path) == {}
    log.stage(batch := build_batch([(0, b"key", b"other", ())]), (read_header(batch),), 4)
    log.write(True)
    again, reopened = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    assert again.restore(reopened) == 0
    assert values_of(reopened) == [b"one", b"other"]
    commit(journal, log, b"behind")
    assert journal.may_name(log.log_id)


def journal_of(root: Path) -> dict[int, int]:
    """Return how many batches the journal in a folder has of each partition."""
    content = (root / JOURNAL_FILE).read_bytes()
    return {entry.partition: len(entry.batches) for _, entry in journal_entries(content)}


def test_entries_of_a_crashed_process_are_wiped_too(tmp_path: Path) -> None:
    commit(Journal(OsFileSystem(), tmp_path), open_log(tmp_path), b"one", b"two")
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    journal.restore(log)
    assert journal.may_name(log.log_id)
    journal.wipe()
    assert journal_of(tmp_path) == {}


def test_a_wipe_keeps_entries_that_other_logs_still_need(tmp_path: Path) -> None:
    journal = Journal(OsFileSystem(), tmp_path)
    commit(journal, open_log(tmp_path), b"one")
    commit(journal, open_log(tmp_path, index=1), b"two", index=1)
    lose_unsynced_bytes(tmp_path, 0, index=1)
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    journal.restore(log)
    journal.wipe()
    again = Journal(OsFileSystem(), tmp_path)
    assert again.end_offset(log.log_id) == 0
    other = open_log(tmp_path, index=1)
    assert again.restore(other) == 1
    assert values_of(other) == [b"two"]


def test_a_later_entry_replaces_the_batches_it_overlaps(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one", b"two", b"three")
    journal.recall((log.log_id,))
    log.sync()
    journal.restart()  # What was recalled is kept.
    journal.restore(log)
    log.truncate_to(1)  # Without a word to the journal, as an earlier version did.
    commit(journal, log, b"other")
    lose_unsynced_bytes(tmp_path, 0)
    again, reopened = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    assert again.end_offset(log.log_id) == 2
    again.restore(reopened)
    assert values_of(reopened) in ([b"one", b"other"], [])


def test_the_kept_file_names_its_logs_until_it_is_deleted(tmp_path: Path) -> None:
    journal, log, other = Journal(OsFileSystem(), tmp_path), open_log(tmp_path), open_log(tmp_path, 1)
    commit(journal, log, b"one")
    commit(journal, other, b"two", index=1)
    journal.recall((log.log_id, other.log_id))
    for each in (log, other):
        each.sync()
        journal.release(each.log_id)
    journal.restart()
    assert journal.restore(log) == 0
    commit(journal, open_log(tmp_path, 2), b"in the place of the lap before")
    assert journal.may_name(log.log_id), "the file has it, for the sake of the other"
    journal.release(open_log(tmp_path, 2).log_id)
    journal.restart()
    journal.wipe()
    assert not journal.may_name(log.log_id)
    assert journal.may_name(other.log_id), "it is not open yet"
    assert [each.partition for _, each in journal_entries((tmp_path / KEPT_FILE).read_bytes())] == [1]
    journal.restore(other)
    assert not journal.may_name(other.log_id)
    assert not (tmp_path / KEPT_FILE).exists()


def test_a_start_that_opened_every_log_leaves_no_entries_for_the_next(tmp_path: Path) -> None:
    commit(Journal(OsFileSystem(), tmp_path), open_log(tmp_path), b"one", b"two")
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    journal.restore(log)
    journal.forget()
    assert journal_of(tmp_path) == {}
    assert not journal.may_name(log.log_id)
    assert Journal(OsFileSystem(), tmp_path).orphaned == 0


def test_a_reopened_log_keeps_its_entries_in_the_journal(tmp_path: Path) -> None:
    journal, log = Journal(OsFileSystem(), tmp_path), open_log(tmp_path)
    commit(journal, log, b"one", b"two")
    log.close()
    reopened = open_log(tmp_path)
    journal.recall((log.log_id,))
    journal.restore(reopened)
    assert journal.may_name(reopened.log_id)
    commit(journal, reopened, b"three")
    reopened.sync()
    journal.restart()
    assert journal.may_name(reopened.log_id), "the lap before is still in the file"
