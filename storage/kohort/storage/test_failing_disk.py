"""A disk that fills or fails: the log stops, says so, and once opened again holds what it promised."""

from errno import EIO
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, iterate_batches, read_header
from kohort.storage import DataDirectory, LogConfig, PartitionLog, StorageError
from kohort.storage.memory_filesystem import MemoryFile, MemoryFileSystem

TOPIC_ID = UUID(int=9)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


def opened() -> tuple[MemoryFileSystem, DataDirectory, PartitionLog]:
    file_system = MemoryFileSystem()
    directory = DataDirectory.open(Path("/data"), file_system)
    return file_system, directory, directory.open_log("orders", TOPIC_ID, 0, CONFIG)


def stage(log: PartitionLog, count: int = 1) -> None:
    for _ in range(count):
        batch = build_batch([(1000 + log.log_end_offset, None, b"v" * 40, ())])
        log.stage(batch, (read_header(batch),), 0)


def append_for_ever(log: PartitionLog) -> None:
    while True:
        stage(log, 2)
        log.write(True)


def reopened(directory: DataDirectory) -> PartitionLog:
    return directory.open_log("orders", TOPIC_ID, 0, CONFIG)


@pytest.mark.parametrize("room", range(0, 1500, 37))
def test_a_full_disk_stops_the_log_and_loses_nothing_that_was_flushed(room: int) -> None:
    file_system, directory, log = opened()
    stage(log, 3)
    log.write(True)
    file_system.room_bytes = room
    with pytest.raises(StorageError, match="No space left"):
        append_for_ever(log)
    with pytest.raises(StorageError, match="takes no more appends"):
        stage(log)
    flushed, written = log.flushed_offset, log.written_offset
    assert log.read(0, 10_000, flushed).size_bytes > 0, "readers go on"
    file_system.room_bytes = None
    log = reopened(directory)
    assert flushed <= log.log_end_offset == written
    stage(log, 2)
    log.write(True)
    assert log.flushed_offset == log.log_end_offset


@pytest.mark.parametrize("syncs", range(12))
def test_after_a_failed_sync_the_unsynced_records_are_never_served_again(syncs: int) -> None:
    file_system, directory, log = opened()
    file_system.syncs_until_failure = syncs
    with pytest.raises(StorageError, match="Input/output error"):
        append_for_ever(log)
    flushed = log.flushed_offset
    with pytest.raises(StorageError):
        log.write(True)
    log = reopened(directory)
    assert log.log_end_offset == flushed
    stage(log, 3)
    log.write(True)
    survivor = file_system.after_crash(choose=lambda limit: syncs * 7919 % limit)
    found = DataDirectory.open(Path("/data"), survivor).open_log("orders", TOPIC_ID, 0, CONFIG)
    assert found.log_end_offset == flushed + 3


def test_a_torn_write_in_the_middle_of_a_batch_is_cut_off() -> None:
    file_system, directory, log = opened()
    stage(log, 2)
    log.write(True)
    file_system.room_bytes = 150
    stage(log, 2)
    with pytest.raises(StorageError):
        log.write(True)
    file_system.room_bytes = None
    log = reopened(directory)
    batches = list(iterate_batches(log.read(0, 10_000, log.written_offset).read(), check_crcs=True))
    assert len(batches) == log.log_end_offset == 2


def test_a_failed_sync_during_a_close_counts() -> None:
    file_system, directory, log = opened()
    stage(log, 2)
    log.write(True)
    stage(log, 2)
    file_system.syncs_until_failure = 0
    with pytest.raises(StorageError, match="Input/output error"):
        directory.close()
    assert file_system.read("/data/.kafka_cleanshutdown") is None
    found = DataDirectory.open(Path("/data"), file_system).open_log("orders", TOPIC_ID, 0, CONFIG)
    assert found.log_end_offset == 2


@pytest.mark.parametrize("failing", ["sync", "close"])
def test_records_lost_by_a_failed_sync_do_not_return_after_a_failed_close(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryFile, "reread", MemoryFile.sync)  # As where a cache cannot be dropped.
    file_system, directory, log = opened()
    stage(log, 2)
    log.write(True)
    stage(log, 2)
    if failing == "sync":
        file_system.syncs_until_failure = 0
        with pytest.raises(StorageError, match="Input/output error"):
            log.write(True)
    else:
        log.write(False)
        file_system.syncs_until_failure = 0

    def fail(file: MemoryFile, size_bytes: int) -> None:
        raise OSError(EIO, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(MemoryFile, "truncate", fail)
        for _ in range(2):
            with pytest.raises(StorageError, match="cannot be closed cleanly"):
                reopened(directory)
    log = reopened(directory)
    assert log.log_end_offset == 2
    assert not log.may_rest
    stage(log, 1)
    log.write(True)
    survivor = file_system.after_crash(choose=lambda limit: 0)
    found = DataDirectory.open(Path("/data"), survivor).open_log("orders", TOPIC_ID, 0, CONFIG)
    assert found.log_end_offset == 3
