"""Aborted and open transactions of a log: known to readers, through crashes, cuts and compaction."""

import struct
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.records import ControlType, build_batch, build_transaction_marker, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog, StorageError
from kohort.storage.cleaning import LogCleaning, plan_cleaning
from kohort.storage.compaction import AbortedTransaction
from kohort.storage.memory_filesystem import MemoryFile, MemoryFileSystem
from kohort.storage.transaction_index import AbortedTransactions, decode_transaction_index

CONFIG = LogConfig(segment_bytes=1_000)
COMPACTED = LogConfig(segment_bytes=1_000, cleanup_policy=("compact",), delete_retention_ms=0)
ENTRY = struct.Struct(">hqqqq")


def stage(log: PartitionLog, batch: bytes) -> int:
    return log.stage(batch, (read_header(batch),), 0)


def stage_data(log: PartitionLog, producer_id: int, sequence: int = 0, key: bytes = b"k") -> int:
    batch = build_batch(
        [(1, key, b"v" * 100, ())],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    return stage(log, batch)


def stage_marker(log: PartitionLog, producer_id: int, kind: ControlType = ControlType.ABORT) -> int:
    return stage(
        log,
        build_transaction_marker(
            kind, timestamp_ms=1, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
        ),
    )


def opened(root: Path, config: LogConfig = CONFIG) -> PartitionLog:
    return DataDirectory.open(root, OsFileSystem()).open_log("orders", UUID(int=1), 0, config)


def write_turns(log: PartitionLog) -> list[AbortedTransaction]:
    """Twenty transactions of producer 5, every second one aborted, beside one of producer 9 from 10 on."""
    aborted = []
    for number in range(20):
        first = stage_data(log, 5, number, key=b"%d" % number)
        if number == 5:
            stage_data(log, 9, key=b"open")
        kind = ControlType.ABORT if number % 2 else ControlType.COMMIT
        last = stage_marker(log, 5, kind)
        if kind is ControlType.ABORT:
            aborted.append(AbortedTransaction(5, first, last, 11 if number >= 5 else last + 1))
        log.write(False)
    return aborted


def test_readers_get_aborted_transactions_from_their_offset_to_the_segment_end(tmp_path: Path) -> None:
    log = opened(tmp_path)
    aborted = write_turns(log)
    assert log.segment_count > 3
    for offset in (0, 7, 20, 39):
        bounds = [each.base_offset for each in log.segments if each.base_offset > offset]
        end = bounds[0] if bounds else log.written_offset
        told = log.aborted_from(offset)
        assert told == [each for each in aborted if each.last_offset >= offset and each.first_offset < end]


def test_the_last_stable_offset_waits_for_the_first_open_transaction(tmp_path: Path) -> None:
    log = opened(tmp_path)
    write_turns(log)
    assert log.last_stable_offset(10) == 10
    assert log.last_stable_offset(41) == 11
    end = stage_marker(log, 9)
    assert log.last_stable_offset(end) == 11  # The marker has to be committed, too.
    assert log.last_stable_offset(end + 1) == end + 1
    assert not log.has_transactions


def test_a_committed_marker_counts_above_the_high_watermark(tmp_path: Path) -> None:
    log = opened(tmp_path)
    first, second = stage_data(log, 5), stage_data(log, 6)
    end = stage_marker(log, 6, ControlType.COMMIT)
    assert log.last_stable_offset(end + 1) == first
    stage_marker(log, 5, ControlType.COMMIT)
    assert log.last_stable_offset(end + 1) == first
    assert second < log.last_stable_offset(end + 2) == end + 2


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_transaction_index_is_complete_after_a_start(tmp_path: Path, is_clean: bool) -> None:
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    log = directory.open_log("orders", UUID(int=1), 0, CONFIG)
    aborted = write_turns(log)
    if is_clean:
        directory.close()
    else:
        log.sync()
        for each in log.directory.glob("*.txnindex"):
            each.write_bytes(each.read_bytes()[:-3] if each.stat().st_size > 40 else b"\0" * 34)
        for each in log.directory.glob("*.snapshot"):
            each.unlink()
        del log, directory
    again = opened(tmp_path)
    assert list(again.aborted_transactions) == aborted
    assert again.last_stable_offset(41) == 11
    files = sorted(again.directory.glob("*.txnindex"))
    assert [entry for file in files for entry in decode_transaction_index(file.read_bytes())] == aborted


def test_entries_lost_by_a_crash_are_read_from_the_log_again() -> None:
    """Entries of the newest segment are not synced with its batches."""
    disk = MemoryFileSystem()
    log = DataDirectory.open(Path("/data"), disk).open_log("orders", UUID(int=1), 0, CONFIG)
    aborted = write_turns(log)
    log.sync()
    survivor = disk.after_crash(choose=lambda limit: 0)
    again = DataDirectory.open(Path("/data"), survivor).open_log("orders", UUID(int=1), 0, CONFIG)
    assert again.log_end_offset == 41
    assert list(again.aborted_transactions) == aborted


def on_disk(disk: MemoryFileSystem) -> PartitionLog:
    return DataDirectory.open(Path("/data"), disk).open_log("orders", UUID(int=1), 0, CONFIG)


def roll(log: PartitionLog) -> None:
    """Behind a snapshot nothing that lies before it is read from the log again."""
    while log.segment_count < 2:
        stage(log, build_batch([(1, None, b"v" * 200, ())]))
        log.write(True)


def test_unsynced_entries_of_a_killed_process_survive_a_power_failure() -> None:
    """They lie in the page cache when the log is opened, and no snapshot may count on them there."""
    disk = MemoryFileSystem()
    log = on_disk(disk)
    first = stage_data(log, 5)
    last = stage_marker(log, 5)
    log.write(True)
    killed = MemoryFileSystem()
    for operation in disk.operations:  # As the page cache has it: what was not synced still is not.
        killed.note(operation)
    roll(on_disk(killed))
    survivor = killed.after_crash(choose=lambda limit: 0)
    assert list(on_disk(survivor).aborted_transactions) == [AbortedTransaction(5, first, last, last + 1)]


class FailingIndexes(MemoryFileSystem):
    """Fails a sync of a transaction index, once, and loses what that should have kept."""

    has_failed = False

    def fail_sync_if_ordered(self, file: MemoryFile) -> None:
        made = (each for each in self.operations if each.kind == "create" and each.file == file.number)
        path = next(made).path
        if path.endswith(".txnindex") and not self.has_failed:
            self.has_failed = True
            self.syncs_until_failure = 0
        super().fail_sync_if_ordered(file)


def test_entries_with_a_failed_sync_are_written_again() -> None:
    """A cache may go on showing them, and the next sync goes well without them."""
    disk = FailingIndexes()
    directory = DataDirectory.open(Path("/data"), disk)
    log = directory.open_log("orders", UUID(int=1), 0, CONFIG)
    first = stage_data(log, 5)
    last = stage_marker(log, 5)
    log.write(True)
    with pytest.raises(StorageError):
        roll(log)
    assert disk.has_failed
    roll(directory.open_log("orders", UUID(int=1), 0, CONFIG))
    survivor = disk.after_crash(choose=lambda limit: 0)
    assert list(on_disk(survivor).aborted_transactions) == [AbortedTransaction(5, first, last, last + 1)]


@pytest.mark.parametrize("has_more", [True, False])
@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_a_start_finds_the_end_of_a_transaction_from_an_earlier_segment(
    kind: ControlType, has_more: bool
) -> None:
    """However many of its producer's transactions follow: of most only the last few batches are kept."""
    disk = MemoryFileSystem()
    log = on_disk(disk)
    first = stage_data(log, 5)
    while log.segment_count < 2:
        stage(log, build_batch([(1, None, b"v" * 200, ())]))
        log.write(True)
    more = int(has_more and bool(stage_data(log, 5, 1)))
    wanted = []
    last = stage_marker(log, 5, kind)
    if kind is ControlType.ABORT:
        wanted.append(AbortedTransaction(5, first, last, last + 1))
    log.config = LogConfig(segment_bytes=100_000)
    begun = stage_data(log, 5, 1 + more)
    end = stage_marker(log, 5)
    wanted.append(AbortedTransaction(5, begun, end, end + 1))
    for number in range(20):
        stage_data(log, 5, 2 + more + number)
        stage_marker(log, 5, ControlType.COMMIT)
    log.write(True)
    assert list(log.aborted_transactions) == wanted
    survivor = disk.after_crash(choose=lambda limit: 0)
    assert list(on_disk(survivor).aborted_transactions) == wanted


def test_a_start_finds_the_end_of_a_transaction_open_in_a_snapshot() -> None:
    disk = MemoryFileSystem()
    directory = DataDirectory.open(Path("/data"), disk)
    config = LogConfig(segment_bytes=100_000)
    log = directory.open_log("orders", UUID(int=1), 0, config)
    stage_data(log, 5)
    stage_marker(log, 5, ControlType.COMMIT)
    stage_data(log, 5, 1)
    directory.close()  # With a snapshot in which it is open.
    log = DataDirectory.open(Path("/data"), disk).open_log("orders", UUID(int=1), 0, config)
    stage_marker(log, 5, ControlType.COMMIT)
    begun = stage_data(log, 5, 2)
    end = stage_marker(log, 5)
    for number in range(20):
        stage_data(log, 5, 3 + number)
        stage_marker(log, 5, ControlType.COMMIT)
    log.write(True)
    survivor = disk.after_crash(choose=lambda limit: 0)
    assert list(on_disk(survivor).aborted_transactions) == [AbortedTransaction(5, begun, end, end + 1)]


def test_a_truncated_marker_leaves_its_transaction_open(tmp_path: Path) -> None:
    log = opened(tmp_path)
    aborted = write_turns(log)
    last = aborted[-1]
    log.truncate_to(last.last_offset)
    assert list(log.aborted_transactions) == aborted[:-1]
    assert log.producers.is_open(5, 0)
    assert stage_marker(log, 5) == last.last_offset
    log.write(True)
    assert list(log.aborted_transactions) == aborted


def test_deleted_segments_remove_their_entries(tmp_path: Path) -> None:
    log = opened(tmp_path)
    aborted = write_turns(log)
    start = log.segments[2].base_offset
    log.delete_records_before(start, 0)
    assert list(log.aborted_transactions) == [each for each in aborted if each.last_offset >= start]
    log.remove_deleted_files(10**12)
    assert min(int(each.stem) for each in log.directory.glob("*.txnindex")) >= start
    assert list(opened_again(log).aborted_transactions) == list(log.aborted_transactions)


def opened_again(log: PartitionLog) -> PartitionLog:
    log.close()
    return opened(log.directory.parent, log.config)


def test_compaction_removes_aborted_records_and_then_their_entries(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACTED)
    write_turns(log)
    stage_marker(log, 9, ControlType.COMMIT)
    log.write(True)
    for _ in range(3):  # Records go first; their markers once their horizon has passed.
        plan = plan_cleaning(
            log.segments,
            log.config,
            checkpoint=None,
            log_start_offset=0,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.last_stable_offset(log.written_offset),
            now_ms=10,
        )
        round_ = LogCleaning.of(log, plan, now_ms=10, keys_max=100, progress=lambda size: None)
        for replacement in round_.replacements():
            assert log.replace_segments(replacement, 10)
    sealed = log.segments[-1].base_offset
    assert [each for each in log.aborted_transactions if each.last_offset < sealed] == []
    again = opened_again(log)
    assert list(again.aborted_transactions) == list(log.aborted_transactions)


def test_nothing_after_the_last_stable_offset_is_compacted(tmp_path: Path) -> None:
    log = opened(tmp_path, COMPACTED)
    write_turns(log)
    plan = plan_cleaning(
        log.segments,
        log.config,
        checkpoint=None,
        log_start_offset=0,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset(log.written_offset),
        now_ms=10,
    )
    assert 0 < plan.end_offset <= 11


def test_a_marker_of_an_old_epoch_or_an_old_coordinator_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    stage_data(log, 5)
    log.producers.check_marker(5, 0, 7)
    batch = build_transaction_marker(
        ControlType.COMMIT, timestamp_ms=1, producer_id=5, producer_epoch=3, coordinator_epoch=7
    )
    stage(log, batch)
    refused: list[tuple[Callable[[], object], ErrorCode]] = [
        (lambda: log.producers.check_marker(5, 2, 7), ErrorCode.INVALID_PRODUCER_EPOCH),
        (lambda: log.producers.check_marker(5, 3, 6), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ]
    for check, code in refused:
        with pytest.raises(ApiError) as caught:
            check()
        assert caught.value.code is code
    log.producers.check_marker(6, 0, 0)  # Of a producer that is not known.


def test_a_marker_of_a_newer_epoch_than_its_records_ends_none_of_its_own(tmp_path: Path) -> None:
    log = opened(tmp_path)
    stage_data(log, 5)
    log.producers.check_marker(5, 1, 0, is_bumped=True)
    log.producers.check_marker(5, 0, 0)  # Of a producer whose epochs do not grow with each end.
    with pytest.raises(ApiError) as caught:
        log.producers.check_marker(5, 0, 0, is_bumped=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    stage_marker(log, 5)
    log.producers.check_marker(5, 0, 0, is_bumped=True)  # Written again: whoever asks waits for its replicas.


def test_damaged_indexes_are_ignored() -> None:
    sound = ENTRY.pack(0, 5, 0, 1, 2)
    assert list(decode_transaction_index(sound + sound[:-1])) == [AbortedTransaction(5, 0, 1, 2)]
    assert (
        list(decode_transaction_index(ENTRY.pack(1, 5, 0, 1, 2) + ENTRY.pack(0, 5, 3, 1, 2) + bytes(34)))
        == []
    )


def test_a_lookup_ends_where_no_more_entries_can_match() -> None:
    one, two, three = (
        AbortedTransaction(1, 0, 9, 5),
        AbortedTransaction(2, 5, 10, 11),
        AbortedTransaction(3, 20, 25, 26),
    )
    index = AbortedTransactions([three, one, two])
    assert index.between(0, 5) == [one]
    assert index.between(0, 6) == [one, two]
    assert index.between(10, 21) == [two, three]
    assert index.between(26, 99) == []


def test_a_log_without_transactions_has_no_index(tmp_path: Path) -> None:
    log = opened(tmp_path)
    stage(log, build_batch([(1, b"k", b"v", ())]))
    log.write(True)
    assert log.aborted_from(0) == []
    assert not log.has_transactions
    assert list(log.directory.glob("*.txnindex")) == []


def test_a_restarted_log_has_no_open_transactions(tmp_path: Path) -> None:
    log = opened(tmp_path)
    stage_data(log, 9, key=b"open")
    write_turns(log)
    log.close()  # With a snapshot in which both are open.
    log = opened(tmp_path)
    log.delete_records_before(log.segments[-1].base_offset, 0)
    log.restart_at(500)
    assert (log.producers.first_open_offset, len(log.producers)) == (None, 0)
    assert log.last_stable_offset(500) == 500
    stage_data(log, 5)
    stage_marker(log, 5, ControlType.COMMIT)
    log.write(True)
    assert log.last_stable_offset(502) == 502
    log.close()
    assert opened(tmp_path).producers.first_open_offset is None


def test_a_log_with_its_start_beyond_the_end_has_no_open_transactions(tmp_path: Path) -> None:
    log = opened(tmp_path)
    stage_data(log, 9, key=b"open")
    write_turns(log)
    log.close()
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    again = PartitionLog.open(
        directory.file_system,
        log.directory,
        topic="orders",
        topic_id=UUID(int=1),
        index=0,
        config=CONFIG,
        clean=False,
        recovery_point=0,
        log_start_offset=500,
    )
    assert (again.log_end_offset, again.producers.first_open_offset) == (500, None)
    assert again.last_stable_offset(500) == 500
