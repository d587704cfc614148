"""Old segments go by the log's start, its size and their age, and never what readers have not seen."""

import os
import random
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import build_batch, read_header
from kohort.storage import LogConfig, OsFileSystem, PartitionLog
from kohort.storage.retention import may_have_old_segments
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
def test_a_segment_goes_once_its_newest_record_is_too_old(
    tmp_path: Path, now_ms: int, left: list[int]
) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1100, 1000, 1200, 1300, 1400, 1500)
    log.delete_old_segments(log.written_offset, now_ms)
    assert bases(log) == left
    assert log.log_start_offset == left[0]


def test_the_active_segment_is_replaced_when_all_is_too_old_and_the_log_goes_on(tmp_path: Path) -> None:
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
def test_segments_go_while_what_is_left_still_fills_the_size(
    tmp_path: Path, retention_bytes: int, left: list[int]
) -> None:
    log = open_log(tmp_path, retention_bytes=retention_bytes)
    fill(log, 1, 2, 3, 4, 5)
    log.delete_old_segments(5, 10)
    assert bases(log) == left


def test_what_readers_have_not_seen_stays(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1)
    fill(log, 1, 2, 3, 4, 5, 6)
    log.delete_old_segments(3, 9_000)
    assert bases(log) == [2, 4]


def test_a_compacted_topic_loses_only_what_lies_before_its_start(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1, retention_bytes=1, cleanup_policy=("compact",))
    fill(log, 1, 2, 3, 4, 5)
    log.log_start_offset = 3
    log.delete_old_segments(5, 9_000)
    assert bases(log) == [2, 4]


def test_a_segment_that_compaction_has_emptied_goes_with_the_next(tmp_path: Path) -> None:
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


def test_the_files_stay_renamed_for_the_delay_and_readers_keep_theirs(tmp_path: Path) -> None:
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


def test_a_restart_removes_what_was_to_be_removed_later(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1, 2, 3)
    log.delete_old_segments(3, 9_000)
    log.close()
    open_log(tmp_path)
    assert not [name for name in os.listdir(log.directory) if name.endswith(DELETED)]


def may_have(log: PartitionLog, now_ms: int) -> bool:
    """Ask of a closed log what its folder alone says."""
    files, path, start = OsFileSystem(), str(log.directory), log.log_start_offset
    return may_have_old_segments(files, path, log.config, log_start_offset=start, now_ms=now_ms)


@pytest.mark.parametrize(("now_ms", "may"), [(2200, False), (2201, True)])
def test_a_log_that_is_not_open_is_as_old_as_its_oldest_segments_newest_record(
    tmp_path: Path, now_ms: int, *, may: bool
) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1100, 1200, 1000)
    log.close()
    assert may_have(log, now_ms) is may


def test_a_log_without_a_time_index_is_as_old_as_its_first_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1100, 1200)
    log.close()
    (log.directory / "00000000000000000000.timeindex").unlink()
    assert not may_have(log, 2100)
    assert may_have(log, 2101)  # It is opened to be asked, and stays.
    assert not open_log(tmp_path, retention_ms=1000).has_old_segments(2, 2101)


@pytest.mark.parametrize("leftover", [".log.deleted", ".log.cleaned", ".index.swap"])
def test_a_log_with_files_to_be_removed_is_opened_for_it(tmp_path: Path, leftover: str) -> None:
    log = open_log(tmp_path, retention_ms=1000)
    fill(log, 1100)
    log.close()
    assert not may_have(log, 1200)
    (log.directory / f"00000000000000000000{leftover}").touch()
    assert may_have(log, 1200)


def test_a_log_without_records_needs_no_look(tmp_path: Path) -> None:
    log = open_log(tmp_path, retention_ms=1)
    log.close()
    assert not may_have(log, 2**60)


@pytest.mark.parametrize("seed", range(60))
def test_what_a_folder_says_is_never_younger_than_the_log(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    settings = {
        "retention_ms": dice.choice([-1, 0, 500, 1000]),
        "retention_bytes": dice.choice([-1, 0, BATCH_BYTES, 3 * BATCH_BYTES]),
        "cleanup_policy": dice.choice([("delete",), ("compact",), ("compact", "delete")]),
    }
    log = open_log(tmp_path, **settings)
    times = [dice.randrange(-1, 2000) for _ in range(dice.randrange(8))]
    fill(log, *times)
    log.close()
    log = open_log(tmp_path, **settings)
    log.log_start_offset = dice.choice([0, 0, dice.randrange(len(times) + 1)])
    for now_ms in range(1000, 4000, 50):
        assert may_have(log, now_ms) or not log.has_old_segments(len(times), now_ms)


def test_a_compacted_topic_seals_a_segment_in_time_for_its_largest_lag(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",), max_compaction_lag_ms=100)
    fill(log, 1000)
    fill(log, 1101)
    assert bases(log) == [0, 1]


def test_idle_producers_are_forgotten_and_stay_forgotten_after_a_restart(tmp_path: Path) -> None:
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
