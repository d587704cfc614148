"""Aborted transactions of a log that Apache Kafka wrote: told to readers while their records may be there."""

import struct
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import ControlType, build_batch, build_transaction_marker, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog
from kohort.storage.compaction import AbortedTransaction
from kohort.storage.transaction_index import NEVER, decode_transaction_index

CONFIG = LogConfig(segment_bytes=1_000)
ENTRY = struct.Struct(">hqqqq")


def stage(log: PartitionLog, batch: bytes) -> int:
    return log.stage(batch, (read_header(batch),), 0)


def stage_data(log: PartitionLog, producer_id: int, sequence: int = 0) -> int:
    batch = build_batch(
        [(1, b"k", b"v" * 100, ())],
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


def opened(root: Path) -> PartitionLog:
    return DataDirectory.open(root, OsFileSystem()).open_log("orders", UUID(int=1), 0, CONFIG)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twenty aborted transactions of a record each, and one that is open: what Kafka may leave behind."""
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    log = directory.open_log("orders", UUID(int=1), 0, CONFIG)
    entries: dict[int, bytes] = {}
    for number in range(20):
        first = stage_data(log, 5, number)
        last = stage_marker(log, 5)
        log.write(False)
        base = log.segments[-1].base_offset
        entries[base] = entries.get(base, b"") + ENTRY.pack(0, 5, first, last, last + 1)
    stage_data(log, 9)
    directory.close()
    for base, content in entries.items():
        (log.directory / f"{base:020d}.txnindex").write_bytes(content)
    return tmp_path


def test_readers_hear_of_those_from_their_offset_to_the_segments_end(folder: Path) -> None:
    log = opened(folder)
    assert log.segment_count > 3
    for offset in (0, 7, 20, 39):
        end = next((each.base_offset for each in log.segments if each.base_offset > offset), 41)
        told = [each for each in log.aborted_from(offset) if each.producer_id == 5]
        assert told == [
            AbortedTransaction(5, 2 * number, 2 * number + 1)
            for number in range(20)
            if 2 * number + 1 >= offset and 2 * number < end
        ]


def test_an_open_transaction_counts_as_aborted_for_ever(folder: Path) -> None:
    log = opened(folder)
    assert log.aborted_from(40) == [AbortedTransaction(9, 40, NEVER)]
    assert 9 not in {each.producer_id for each in log.aborted_from(0)}


def test_one_whose_marker_is_gone_is_not_told_any_more(folder: Path) -> None:
    """A reader that hears of it would pass over the producer's records until a marker comes."""
    log = opened(folder)
    (first, *_) = log.aborted_from(0)
    log.truncate_to(first.last_offset)
    stage_data(log, 6)
    log.write(True)
    assert 5 not in {each.producer_id for each in log.aborted_from(0)}


def test_damaged_indexes_say_nothing() -> None:
    sound = ENTRY.pack(0, 5, 0, 1, 2)
    assert list(decode_transaction_index(sound + sound[:-1])) == [AbortedTransaction(5, 0, 1)]
    assert (
        list(decode_transaction_index(ENTRY.pack(1, 5, 0, 1, 2) + ENTRY.pack(0, 5, 3, 1, 2) + bytes(34)))
        == []
    )


def test_a_log_of_our_own_has_none(tmp_path: Path) -> None:
    log = opened(tmp_path)
    stage(log, build_batch([(1, b"k", b"v", ())]))
    log.write(True)
    assert log.aborted_from(0) == []
