"""Logs that were at rest before a crash are known to be sound, and no others are taken for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, read_header
from kohort.storage import DataDirectory, FileSystem, LogConfig, OsFileSystem, PartitionLog, StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem
from kohort.storage.resting import RESTING_LOGS, RestingLog, decode_resting_logs, encode_resting_logs

ROOT = Path("/data")  # Of a disk in memory.
TOPIC_ID = UUID(int=3)
CONFIG = LogConfig(segment_bytes=10_000, index_interval_bytes=150)


def opened(path: Path, files: FileSystem | None = None) -> tuple[DataDirectory, PartitionLog]:
    directory = DataDirectory.open(path, files or OsFileSystem())
    return directory, directory.open_log("orders", TOPIC_ID, 0, CONFIG)


def append(log: PartitionLog, count: int, value: bytes = b"first", *, sync: bool = True) -> None:
    for _ in range(count):
        batch = build_batch([(1, None, value, ())], base_offset=log.log_end_offset)
        log.stage(batch, (read_header(batch),), 0)
        log.write(sync)


def rested(
    path: Path, count: int = 20, *, sync: bool = True, files: FileSystem | None = None
) -> tuple[DataDirectory, PartitionLog]:
    """Return a log that is noted as at rest."""
    directory, log = opened(path, files)
    append(log, count, sync=sync)
    directory.note_resting_logs()
    assert directory.note_resting_logs() == 1
    return directory, log


def after_a_crash(path: Path) -> DataDirectory:
    """Return the folder as a crash leaves it."""
    return DataDirectory.open(
        Path(shutil.copytree(path, path.parent / f"{path.name}-crashed")), OsFileSystem()
    )


def crashes(files: MemoryFileSystem, first: int, *, seeds: int) -> Iterator[tuple[int, int, DataDirectory]]:
    """Yield each operation from `first` on, and what a crash right before the next leaves, by a few seeds."""
    for count in range(first, len(files.operations) + 1):
        for seed in range(seeds):
            disk = files.after_crash(count, None if not seed else Random(seed).randrange)
            yield count, seed, DataDirectory.open(ROOT, disk)


def sound_end(directory: DataDirectory, topic_id: UUID = TOPIC_ID) -> int | None:
    return directory.sound_end("orders", topic_id, 0)


@pytest.mark.parametrize("sync", [True, False])
def test_a_resting_log_is_intact_after_a_crash(tmp_path: Path, *, sync: bool) -> None:
    _before = rested(tmp_path / "data", sync=sync)
    directory = after_a_crash(tmp_path / "data")
    assert not directory.is_clean
    assert sound_end(directory) == 20
    assert sound_end(directory, UUID(int=4)) is None, "another topic of that name"
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    assert (log.log_end_offset, sound_end(directory)) == (20, None)


def test_one_check_does_not_mark_a_log_as_resting(tmp_path: Path) -> None:
    directory, log = opened(tmp_path / "data")
    append(log, 3)
    assert directory.note_resting_logs() == 0
    append(log, 1)
    assert directory.note_resting_logs() == 0
    assert directory.note_resting_logs() == 1
    assert directory.note_resting_logs() == 0, "it is noted by now"


def test_unwritten_batches_prevent_resting(tmp_path: Path) -> None:
    directory, log = opened(tmp_path / "data")
    batch = build_batch([(1, None, b"staged", ())])
    log.stage(batch, (read_header(batch),), 0)
    assert [directory.note_resting_logs() for _ in range(3)] == [0, 0, 0]


def test_a_log_is_noted_no_more_once_a_sync_for_it_has_failed() -> None:
    """The next sync of that file succeeds, and has nothing of what the failed one has lost."""
    noted = 0
    for failing in range(12):
        files = MemoryFileSystem()
        directory = DataDirectory.open(ROOT, files)
        directory.create_partitions([("orders", TOPIC_ID, 0)])
        log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
        append(log, 3, sync=False)
        files.syncs_until_failure = failing
        for _ in range(4):
            with suppress(StorageError):
                directory.note_resting_logs()
        crashed = DataDirectory.open(ROOT, files.after_crash(None, lambda _: 0))
        if sound_end(crashed) is not None:
            noted += 1
            assert [each.topic_id for each in crashed.partitions()] == [TOPIC_ID], failing
            log = crashed.open_log("orders", TOPIC_ID, 0, CONFIG)
            assert (log.log_end_offset, log.latest_epoch) == (3, 0), failing
    assert noted


def grow(directory: DataDirectory, log: PartitionLog) -> None:
    append(log, 1)


def grow_again_after_a_cut(directory: DataDirectory, log: PartitionLog) -> None:
    log.truncate_to(10)
    append(log, 10, b"other")


def begin_anew(directory: DataDirectory, log: PartitionLog) -> None:
    log.restart_at(0)
    append(log, 20, b"other")


def delete_and_create_again(directory: DataDirectory, log: PartitionLog) -> None:
    directory.delete_log("orders", 0)
    directory.create_partitions([("orders", TOPIC_ID, 0)])
    append(directory.open_log("orders", TOPIC_ID, 0, CONFIG), 20, b"other")


def roll(directory: DataDirectory, log: PartitionLog) -> None:
    append(log, 2, bytes(9_000))


@pytest.mark.parametrize("change", [grow, grow_again_after_a_cut, begin_anew, delete_and_create_again])
def test_a_log_that_changed_since_is_recovered(
    tmp_path: Path, change: Callable[[DataDirectory, PartitionLog], None]
) -> None:
    directory, log = rested(tmp_path / "data")
    change(directory, log)
    assert sound_end(after_a_crash(tmp_path / "data")) is None
    for _ in range(2):
        directory.note_resting_logs()
    shutil.rmtree(tmp_path / "data-crashed")
    now_open = directory.records.log("orders", 0)
    assert now_open is not None
    end_offset = now_open.log_end_offset
    assert sound_end(after_a_crash(tmp_path / "data")) == end_offset, "it is at rest again"


def test_a_log_is_noted_no_more_before_anything_of_it_is_cut() -> None:
    """At every operation of a cut and what comes behind it, a crash leaves no note that lies."""
    files = MemoryFileSystem()
    directory, log = rested(ROOT, files=files)
    noted = log.read(0, 100_000, 20).read()
    before = len(files.operations)
    grow_again_after_a_cut(directory, log)
    assert len(files.operations) > before + 10
    for count, seed, crashed in crashes(files, before, seeds=4):
        if sound_end(crashed) is not None:
            found = crashed.open_log("orders", TOPIC_ID, 0, CONFIG)
            assert found.read(0, 100_000, 20).read() == noted, (count, seed)


def test_a_segment_started_after_the_noted_one_is_found_when_the_log_is_opened(tmp_path: Path) -> None:
    _before, log = rested(tmp_path / "data")
    append(log, 1, bytes(9_000))
    append(log, 1, bytes(9_000), sync=False)
    assert [each.base_offset for each in log.segments] == [0, 20, 21]
    newest = tmp_path / "data" / "orders-0" / f"{21:020d}.log"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1  # As of a page that a crash took: the headers of batches do not tell.
    newest.write_bytes(content)
    directory = after_a_crash(tmp_path / "data")
    assert sound_end(directory) == 20, "one file of it is looked at"
    assert directory.open_log("orders", TOPIC_ID, 0, CONFIG).log_end_offset == 21
    assert sound_end(directory) is None
    assert not (directory.path / RESTING_LOGS).exists(), "it was recovered, and so may have been cut"


def test_an_unopened_log_is_checked_before_a_stop_counts_as_clean(tmp_path: Path) -> None:
    directory, log = rested(tmp_path / "data")
    roll(directory, log)
    crashed = after_a_crash(tmp_path / "data")
    crashed.close()
    assert not DataDirectory.open(crashed.path, OsFileSystem()).is_clean


def test_batches_appended_since_a_note_are_found_or_truncated_after_any_crash() -> None:
    """At every operation behind a note a crash leaves a log that has what was synced, and nothing torn."""
    files = MemoryFileSystem()
    _directory, log = rested(ROOT, files=files)
    before = len(files.operations)
    ends = [(before, 20)]
    for _ in range(2):
        append(log, 1, bytes(9_000), sync=False)  # It does not fit in: the noted segment stays as it is.
        append(log, 3, b"second", sync=False)
        append(log, 1, b"third")
        ends.append((len(files.operations), log.log_end_offset))
    assert [each.base_offset for each in log.segments] == [0, 20, 25]
    written = b"".join(segment.file.read_at(100_000, 0) for segment in log.segments)
    for count, seed, crashed in crashes(files, before, seeds=12):
        found = crashed.open_log("orders", TOPIC_ID, 0, CONFIG)
        assert found.log_end_offset >= max(end for place, end in ends if place <= count), (count, seed)
        content = b"".join(segment.file.read_at(100_000, 0) for segment in found.segments)
        assert written.startswith(content), (count, seed)


def test_a_log_that_ends_before_its_confirmed_end_is_recovered(tmp_path: Path) -> None:
    _before = rested(tmp_path / "data")
    (tmp_path / "data" / "replication-offset-checkpoint").write_text("0\n1\norders 0 21\n")
    assert sound_end(after_a_crash(tmp_path / "data")) is None


def test_a_log_that_was_cut_in_its_folder_is_recovered(tmp_path: Path) -> None:
    _before = rested(tmp_path / "data")
    segment = tmp_path / "data" / "orders-0" / f"{0:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    directory = after_a_crash(tmp_path / "data")
    assert sound_end(directory) is None
    assert directory.open_log("orders", TOPIC_ID, 0, CONFIG).log_end_offset == 19


def test_logs_of_a_clean_stop_are_noted_without_being_opened(tmp_path: Path) -> None:
    directory, _ = rested(tmp_path / "data")
    directory.close()
    assert not (tmp_path / "data" / RESTING_LOGS).exists(), "another broker may write before the next start"
    directory = DataDirectory.open(tmp_path / "data", OsFileSystem())
    assert directory.note_resting_logs() == 1
    assert not directory.records.open_logs()
    assert sound_end(after_a_crash(tmp_path / "data")) == 20


def test_a_start_that_opens_no_log_can_stop_cleanly(tmp_path: Path) -> None:
    _before = rested(tmp_path / "data")
    directory = after_a_crash(tmp_path / "data")
    directory.close()
    assert DataDirectory.open(directory.path, OsFileSystem()).is_clean


def test_a_log_that_failed_is_not_noted_any_more(tmp_path: Path) -> None:
    directory, log = rested(tmp_path / "data")
    segment = log.segments[-1]
    segment._lost = OSError("the disk")  # As a sync says it that nobody waits for.
    append(log, 1, sync=False)
    with pytest.raises(StorageError):
        log.sync()
    log = directory.open_log("orders", TOPIC_ID, 0, CONFIG)
    assert [directory.note_resting_logs() for _ in range(3)] == [0, 0, 0]
    assert sound_end(after_a_crash(tmp_path / "data")) is None


def test_a_failed_sync_here_is_reported_to_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, log = opened(tmp_path / "data")
    append(log, 1, sync=False)
    directory.note_resting_logs()
    file = log.segments[-1].file

    def fail() -> None:
        raise OSError(5, "the disk")

    monkeypatch.setattr(type(file), "sync", lambda each: fail())
    assert directory.note_resting_logs() == 1
    monkeypatch.undo()
    with pytest.raises(StorageError, match="the disk"):
        log.sync()
    assert sound_end(after_a_crash(tmp_path / "data")) is None


def test_a_log_with_a_failed_sync_is_not_noted_after_a_later_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first one has lost the second does not bring back, whatever it says."""
    directory, log = opened(tmp_path / "data")
    append(log, 1, sync=False)
    directory.note_resting_logs()

    def fail(file: object) -> None:
        raise OSError(5, "the disk")

    monkeypatch.setattr(type(log.segments[-1].file), "sync", fail)
    directory.note_resting_logs()
    monkeypatch.undo()
    for _ in range(3):
        directory.note_resting_logs()
    assert sound_end(after_a_crash(tmp_path / "data")) is None


def test_a_log_is_synced_through_a_descriptor_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that sync by one descriptor at the same moment, one hears of an error and the other does not."""
    directory, log = opened(tmp_path / "data")
    append(log, 1, sync=False)
    directory.note_resting_logs()
    own, synced = log.segments[-1].file, list[object]()

    def sync(each: object) -> None:
        synced.append(each)

    monkeypatch.setattr(type(own), "sync", sync)
    assert directory.note_resting_logs() == 1
    assert len(synced) >= 3
    assert own not in synced


def test_the_owner_of_a_noted_folder_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _before = rested(tmp_path / "data")
    directory = after_a_crash(tmp_path / "data")
    assert [each.topic_id for each in directory.strays({"orders": UUID(int=4)})] == [TOPIC_ID]
    assert [each.topic_id for each in directory.strays({})] == [TOPIC_ID], "of a topic that is gone"
    read = list[str]()
    monkeypatch.setattr(OsFileSystem, "read", lambda _, path: read.append(str(path)))
    assert not directory.strays({"orders": TOPIC_ID})
    assert not read


def test_a_damaged_note_is_ignored() -> None:
    notes = {("orders", 0): RestingLog(TOPIC_ID, 0, 20, 1_480, 48, 84)}
    content = encode_resting_logs(notes)
    assert decode_resting_logs(content) == notes
    assert decode_resting_logs(None) == decode_resting_logs(b"") == {}
    for place in range(len(content)):
        damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        assert decode_resting_logs(damaged) == {}
        assert decode_resting_logs(content[:place]) == {}
