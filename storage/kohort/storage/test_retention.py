"""Old segments go by the log's start, its size and their age, and never what readers have not seen."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, read_header
from kohort.storage import LogConfig, OsFileSystem, PartitionLog
from kohort.storage.swapping import DELETED

TOPIC_ID = UUID(int=11)
BATCH_BYTES = 271
SEGMENT_BYTES = 2 * BATCH_BYTES


def open_log(root: Path, **settings: object) -> PartitionLog:
    config = LogConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=100, **settings)  # type: ignore[arg-type]
    return PartitionLog.open(
        OsFileSystem(),
        root / "orders-0",
        topic="orders",
        topic_id=TOPIC_ID,
        index=0,
        config=config,
        clean=True,
        recovery_point=0,
    )


def fill(log: PartitionLog, *timestamps: int) -> None:
    """Write a batch of BATCH_BYTES for each timestamp: two make a segment."""
    for timestamp in timestamps:
        batch = build_batch([(timestamp, b"key", b"v" * 198, ())])
        assert len(batch) == BATCH_BYTES
        log.stage(batch, (read_header(batch),), 0)
    log.write(True)


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize(
    ("now_ms", "left"), [(2000, [0, 2, 4]), (2101, [2, 4]), (2199, [2, 4]), (2301, [4]), (2501, [6])]
)
def test_a_segment_is_deleted_when_its_newest_record_is_too_old(
    tmp_path: Path, now_ms: int, left: list[int]
) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1100, 1000, 1200, 1300, 1400, 1500)
    log.delete_old_segments(log.written_offset, now_ms)
    assert bases(log) == left
    assert log.log_start_offset == left[0]


def test_the_active_segment_is_replaced_when_all_records_are_too_old(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1, 2, 3)
    assert log.delete_old_segments(3, 9_000) == 2
    assert log.delete_old_segments(3, 90_000) == 0
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    fill(log, 9_001)
    assert log.read(3, 1000, 4).size_bytes == BATCH_BYTES
    log.close()
    again = open_log(tmp_path)
    assert (again.log_start_offset, again.log_end_offset) == (3, 4)


@pytest.mark.parametrize(
    ("retention_bytes", "left"),
    [
        (-1, [0, 2, 4]),
        (5 * BATCH_BYTES, [0, 2, 4]),
        (4 * BATCH_BYTES, [0, 2, 4]),
        (3 * BATCH_BYTES, [2, 4]),
        (BATCH_BYTES, [4]),
        (0, [5]),
    ],
)
def test_segments_are_deleted_while_the_rest_still_fills_the_size(
    tmp_path: Path, retention_bytes: int, left: list[int]
) -> None:
    log = open_log(tmp_path, retention_bytes=retention_bytes)
    fill(log, 1, 2, 3, 4, 5)
    log.delete_old_segments(5, 10)
    assert bases(log) == left


def test_unreadable_records_are_not_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1)
    fill(log, 1, 2, 3, 4, 5, 6)
    log.delete_old_segments(3, 9_000)
    assert bases(log) == [2, 4]


def test_a_compacted_topic_loses_only_records_before_its_start(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1, retention_bytes=1, cleanup_policy=("compact",))
    fill(log, 1, 2, 3, 4, 5)
    log.log_start_offset = 3
    log.delete_old_segments(5, 9_000)
    assert bases(log) == [2, 4]


def test_a_segment_emptied_by_compaction_is_deleted_with_the_next(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1000, 1000, 2000, 2000, 3000)
    log.segments[0].max_timestamp = -1
    (log.directory / "00000000000000000000.timeindex").unlink()
    assert log.delete_old_segments(5, 2500) == 0
    assert log.delete_old_segments(5, 3001) == 2


def test_no_time_limit_keeps_everything(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=-1)
    fill(log, 1, 2, 3)
    assert log.delete_old_segments(3, 2**60) == 0


def test_deleted_files_are_kept_for_the_delay_and_readers_can_use_them(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1000, file_delete_delay_ms=500)
    fill(log, 1, 2, 3)
    held = log.read(0, 10_000, 3)
    log.delete_old_segments(3, 9_000)
    deleted = [name for name in os.listdir(log.directory) if name.endswith(DELETED)]
    assert len(deleted) >= 4
    log.remove_deleted_files(9_499)
    assert log.has_deleted_files
    log.remove_deleted_files(9_500)
    assert not [name for name in os.listdir(log.directory) if name.endswith(DELETED)]
    assert len(held.read()) == SEGMENT_BYTES


def test_a_restart_deletes_files_that_waited_for_deletion(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1, 2, 3)
    log.delete_old_segments(3, 9_000)
    log.close()
    open_log(tmp_path)
    assert not [name for name in os.listdir(log.directory) if name.endswith(DELETED)]


def test_a_compacted_topic_seals_a_segment_in_time_for_its_largest_lag(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",), max_compaction_lag_ms=100)
    fill(log, 1000)
    fill(log, 1101)
    assert bases(log) == [0, 1]


def test_idle_producers_are_removed_and_stay_removed_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for producer_id, timestamp in ((1, 1000), (2, 1900)):
        batch = build_batch(
            [(timestamp, b"k", b"v", ())], producer_id=producer_id, producer_epoch=0, base_sequence=0
        )
        log.stage(batch, (read_header(batch),), 0)
    log.close()
    log = open_log(tmp_path)
    assert log.expire_producers(2000, 1000) == 1
    assert [producer_id for producer_id, _ in log.producers.items()] == [2]
    log.close()
    assert [producer_id for producer_id, _ in open_log(tmp_path).producers.items()] == [2]
