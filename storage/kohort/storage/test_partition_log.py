"""A log on real files: staged, written, read, rolled, truncated, closed and opened again."""

import os
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import (
    Compression,
    RecordFields,
    build_batch,
    iterate_batches,
    iterate_records,
    read_header,
)
from kohort.storage import LogConfig, OsFileSystem, PartitionLog, StorageError

TOPIC_ID = UUID(int=0x1234_5678_9ABC_DEF0)
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def open_log(
    root: Path,
    config: LogConfig = SMALL,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    index: int = 0,
) -> PartitionLog:
    return PartitionLog.open(
        OsFileSystem(),
        root / f"orders-{index}",
        topic="orders",
        topic_id=TOPIC_ID,
        index=index,
        config=config,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )


def stage(log: PartitionLog, count: int = 1, *, timestamp: int = 1000, epoch: int = 0, **numbers: int) -> int:
    records: list[RecordFields] = [(timestamp, b"key", b"value %d" % place, ()) for place in range(count)]
    batch = build_batch(records, **numbers)  # type: ignore[arg-type]
    return log.stage(batch, (read_header(batch),), epoch)


def fill(log: PartitionLog, batches: int = 40) -> None:
    for place in range(batches):
        stage(log, 3, timestamp=1000 + place)
    log.write(True)


def offsets_of(data: bytes) -> list[int]:
    return [record.offset for batch in iterate_batches(data) for record in iterate_records(batch)]


def read_offsets(log: PartitionLog, offset: int = 0) -> list[int]:
    found: list[int] = []
    while True:
        data = log.read(offset, 1_000_000, log.written_offset).read()
        if not data:
            return found
        found += offsets_of(data)
        offset = found[-1] + 1


def test_readers_see_written_batches_but_not_staged_ones(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert stage(log, 2) == 0
    assert stage(log) == 2
    assert (log.log_end_offset, log.written_offset, log.flushed_offset) == (3, 0, 0)
    assert log.read(0, 100, 3).size_bytes == 0
    assert log.staged_bytes > 100
    log.write(False)
    assert (log.log_end_offset, log.written_offset, log.flushed_offset, log.staged_bytes) == (3, 3, 0, 0)
    log.write(True)
    assert log.flushed_offset == 3
    assert offsets_of(log.read(0, 1000, 3).read()) == [0, 1, 2]


def test_a_read_starts_with_the_batch_of_the_offset_and_ends_before_the_bound(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig())
    fill(log)
    assert offsets_of(log.read(4, 1_000_000, 9).read()) == [3, 4, 5, 6, 7, 8]
    assert offsets_of(log.read(119, 1_000_000, 120).read()) == [117, 118, 119]
    assert log.read(120, 1_000_000, 120).size_bytes == 0
    assert os.pread(log.read(0, 50, 120, at_least_one_batch=False).file_descriptor, 8, 0) == bytes(8)


def test_the_first_batch_is_complete_for_any_limit_if_requested(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig())
    fill(log, 5)
    whole = log.read(0, 1, 15)
    assert offsets_of(whole.read()) == [0, 1, 2]
    assert whole.size_bytes == read_header(whole.read()).size_bytes
    assert log.read(0, 1, 15, at_least_one_batch=False).size_bytes == 1


def test_every_offset_is_found_in_every_segment_with_and_without_caches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    assert log.segment_count > 3
    for _ in range(2):
        assert read_offsets(log) == list(range(120))
        for offset in range(120):
            assert offsets_of(log.read(offset, 1, 120).read())[0] == offset // 3 * 3
            assert offset in offsets_of(log.read(offset, 10_000, offset // 3 * 3 + 3).read())
        log.close()
        log = open_log(tmp_path, clean=True)
        assert log.log_end_offset == 120


def test_a_cleanly_closed_log_is_opened_without_a_scan_and_continues(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    stage(log, epoch=4)
    log.close()
    assert log.recovery_point == 121
    log = open_log(tmp_path, clean=True, recovery_point=121)
    assert (log.log_end_offset, log.latest_epoch, log.truncated_bytes) == (121, 4, 0)
    fill(log)
    log.close()
    log = open_log(tmp_path, clean=True)
    assert read_offsets(log) == list(range(241))


def test_a_torn_tail_is_cut_off(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    last = max((tmp_path / "orders-0").glob("*.log"))
    os.truncate(last, last.stat().st_size - 1)
    log = open_log(tmp_path)
    assert log.log_end_offset == 117
    assert log.truncated_bytes > 0
    assert log.size_bytes == sum(path.stat().st_size for path in last.parent.glob("*.log"))
    assert stage(log) == 117
    log.write(True)
    assert read_offsets(log) == list(range(118))


def test_a_damaged_batch_ends_the_log_and_later_segments_are_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    _, second, *rest = sorted((tmp_path / "orders-0").glob("*.log"))
    base_offset = int(second.stem)
    with second.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    log = open_log(tmp_path, recovery_point=base_offset)
    assert log.removed_segments == len(rest)
    assert base_offset < log.log_end_offset < int(rest[0].stem)
    assert read_offsets(log) == list(range(log.log_end_offset))


def test_missing_or_damaged_indexes_are_rebuilt(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    log.close()
    kept = {path: path.read_bytes() for path in (tmp_path / "orders-0").glob("*index")}
    for place, path in enumerate(kept):
        path.write_bytes(b"\xff" * 24) if place % 2 else path.unlink()
    log = open_log(tmp_path)
    log.close()
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_sealed_segment_without_its_indexes_gets_them_at_a_clean_start(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    log.close()
    removed = [path for path in (tmp_path / "orders-0").glob("*index") if int(path.stem) < 90]
    kept = {path: path.read_bytes() for path in removed}
    for path in removed:
        path.unlink()
    log = open_log(tmp_path, clean=True)
    assert log.offset_for_timestamp(1007) == (21, 1007, 0)
    assert {path: path.read_bytes() for path in removed} == kept != {}


def test_log_append_time_is_set_and_the_crc_corrected(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    batch = build_batch([(5, b"k", b"v", ()), (6, b"k", b"v", ())], compression=Compression.LZ4)
    log.stage(batch, (read_header(batch),), 7, append_time_ms=99)
    log.write(True)
    (found,) = iterate_batches(log.read(0, 1000, 2).read(), check_crcs=True)
    assert [record.timestamp for record in iterate_records(found)] == [99, 99]
    assert read_header(found).partition_leader_epoch == 7
    assert log.max_timestamp == 99


def test_offsets_are_found_by_their_timestamps(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_for_max_timestamp() is None
    fill(log)
    for clean in (True, False):
        for place in range(40):
            assert log.offset_for_timestamp(1000 + place) == (place * 3, 1000 + place, 0)
        assert log.offset_for_timestamp(0) == (0, 1000, 0)
        assert log.offset_for_timestamp(1040) is None
        assert log.offset_for_max_timestamp() == (117, 1039, 0)
        log.close()
        log = open_log(tmp_path, clean=clean)


def test_a_segment_rolls_when_its_records_span_more_than_segment_ms(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=100))
    for timestamp in (1000, 1100, 1101, 1150, 1300):
        stage(log, timestamp=timestamp)
    log.write(True)
    assert [int(path.stem) for path in sorted((tmp_path / "orders-0").glob("*.log"))] == [0, 2, 4]


def test_segments_roll_earlier_each_by_a_jitter_of_its_own(tmp_path: Path) -> None:
    """Logs that began together are not to roll together for ever."""
    lengths: list[int] = []
    for index in range(8):
        log = open_log(tmp_path, LogConfig(segment_ms=100, segment_jitter_ms=50), index=index)
        for timestamp in range(1000, 1300, 5):
            stage(log, timestamp=timestamp)
        log.write(True)
        bases = [int(path.stem) for path in sorted(log.directory.glob("*.log"))]
        lengths += [5 * (after - before) for before, after in pairwise(bases)]
        log.close()
    assert 50 < min(lengths) < max(lengths) <= 105
    assert len(set(lengths)) > 3


def test_a_jitter_is_at_most_the_time_itself(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=10, segment_jitter_ms=10_000))
    for timestamp in (1000, 1000, 1011):
        stage(log, timestamp=timestamp)
    log.write(True)
    assert [int(path.stem) for path in sorted(log.directory.glob("*.log"))] == [0, 2]


def test_a_segment_ends_when_its_index_is_full(tmp_path: Path) -> None:
    """One entry per batch of 100 bytes at an interval of none, and room for ten."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=80))
    for place in range(40):
        stage(log, timestamp=1000 + place)
        log.write(False)
    log.close()
    sizes = [path.stat().st_size for path in sorted(log.directory.glob("*.index"))]
    assert len(sizes) > 3
    assert max(sizes) <= 80
    assert all(path.stat().st_size <= 80 + 12 for path in log.directory.glob("*.timeindex"))


def test_a_truncated_segment_fills_its_index_again_and_the_file_equals_memory(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=80))

    def index_file() -> bytes:
        return (log.directory / "00000000000000000000.index").read_bytes()

    def write(count: int) -> None:
        for _ in range(count):
            stage(log)
            log.write(False)
            assert index_file() == log.segments[0].index.entries

    write(9)
    assert log.segment_count == 1
    log.truncate_to(3)
    assert index_file() == log.segments[0].index.entries
    write(6)
    assert log.segment_count == 1
    write(8)
    assert log.segment_count == 2
    log.truncate_to(4)  # The sealed segment becomes the active one again.
    write(5)
    assert log.segment_count == 1


@pytest.mark.parametrize("interval_bytes", [0, 500, 5_000])
def test_an_index_has_an_entry_per_interval(tmp_path: Path, interval_bytes: int) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=interval_bytes))
    for _ in range(200):
        stage(log)
        log.write(False)
    size_bytes = log.size_bytes
    log.close()
    entries = (log.directory / "00000000000000000000.index").stat().st_size // 8
    batch_bytes = size_bytes // 200
    assert entries == 199 // (interval_bytes // batch_bytes + 1)


def test_truncation_removes_batches_and_the_epochs_that_began_in_them(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    stage(log, 3, epoch=5)
    log.write(True)
    assert log.end_offset_for_epoch(0) == (0, 120)
    log.truncate_to(62)
    assert (log.log_end_offset, log.latest_epoch) == (60, 0)
    assert read_offsets(log) == list(range(60))
    assert stage(log, epoch=6) == 60
    log.write(True)
    log.close()
    log = open_log(tmp_path, clean=True)
    assert read_offsets(log) == list(range(61))
    assert log.end_offset_for_epoch(0) == (0, 60)
    assert log.end_offset_for_epoch(3) == (0, 60)
    assert log.end_offset_for_epoch(6) == (6, 61)
    assert log.end_offset_for_epoch(7) == (-1, -1)


def test_a_segment_made_active_by_truncation_is_appended_to(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    log.close()
    log = open_log(tmp_path, clean=True)
    count = log.segment_count
    second = sorted((tmp_path / "orders-0").glob("*.log"))[1]
    log.truncate_to(int(second.stem) + 3)
    stage(log, timestamp=1010)
    log.write(True)
    assert log.segment_count == 2 < count
    assert read_offsets(log) == list(range(int(second.stem) + 4))


def test_older_segments_are_not_held_open(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    log.close()
    before = len(os.listdir("/dev/fd"))
    log = open_log(tmp_path, clean=True)
    assert len(os.listdir("/dev/fd")) == before + 1
    assert read_offsets(log) == list(range(120))
    fill(log)
    assert len(os.listdir("/dev/fd")) <= before + 3


def test_truncation_before_the_log_start_leaves_an_empty_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, log_start_offset=50)
    fill(log, 2)
    log.truncate_to(20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    assert stage(log) == 20


@pytest.mark.parametrize("offset", [0, 7, 119, 5_000])
def test_a_log_restarts_at_the_given_offset(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path)
    fill(log)
    log.restart_at(offset)
    assert (log.log_start_offset, log.log_end_offset, log.flushed_offset) == (offset, offset, offset)
    assert (log.latest_epoch, read_offsets(log, offset)) == (-1, [])
    log.close()
    log = open_log(tmp_path, clean=False, log_start_offset=offset)
    assert (log.log_start_offset, log.log_end_offset) == (offset, offset)
    assert stage(log, 3, epoch=4) == offset
    log.write(True)
    log.close()
    log = open_log(tmp_path, clean=False, log_start_offset=offset)
    assert read_offsets(log, offset) == [offset, offset + 1, offset + 2]
    assert log.end_offset_for_epoch(4) == (4, offset + 3)


def test_the_log_start_never_passes_the_synced_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 1)
    stage(log)
    log.write(sync=False)
    log.became_durable(log.written_offset)  # As the journal would have it.
    assert log.synced_offset < log.written_offset
    log.delete_records_before(log.written_offset - 1, now_ms=1_000)
    assert log.synced_offset == log.written_offset


def test_deleting_records_deletes_whole_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    count = log.segment_count
    held = log.read(0, 100_000, 120)
    log.delete_records_before(100, now_ms=1_000)
    assert log.log_start_offset == 100
    assert log.segment_count < count
    assert offsets_of(held.read())[0] == 0, "who reads a removed segment goes on"
    deleted = [path for path in log.directory.iterdir() if path.name.endswith(".deleted")]
    log.remove_deleted_files(1_000 + log.config.file_delete_delay_ms - 1)
    assert deleted
    assert all(path.exists() for path in deleted), "their files stay for file.delete.delay.ms"
    log.remove_deleted_files(1_000 + log.config.file_delete_delay_ms)
    assert not any(path.exists() for path in deleted)
    log.close()
    log = open_log(tmp_path, clean=True, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 120)
    assert log.offset_for_timestamp(0) == (100, 1033, 0)


def test_a_log_start_beyond_the_end_empties_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 2)
    log.close()
    log = open_log(tmp_path, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset, read_offsets(log)) == (500, 500, [])
    assert stage(log) == 500


def test_batches_are_replayed_from_any_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    for start in (0, 1, 59, 119):
        replayed = [record.offset for batch in log.read_batches(start) for record in iterate_records(batch)]
        assert replayed == list(range(start // 3 * 3, 120))
    assert list(log.read_batches(120)) == []


def test_a_closed_log_refuses_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.close()
    with pytest.raises(StorageError, match="closed"):
        stage(log)


def test_a_folder_of_another_topic_id_is_refused(tmp_path: Path) -> None:
    open_log(tmp_path).close()
    with pytest.raises(StorageError, match="belongs to topic id"):
        PartitionLog.open(
            OsFileSystem(),
            tmp_path / "orders-0",
            topic="orders",
            topic_id=UUID(int=5),
            index=0,
            config=SMALL,
            clean=True,
            recovery_point=0,
        )


def test_a_deleted_log_leaves_no_folder(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log)
    log.delete()
    assert os.listdir(tmp_path) == []


def test_producers_survive_a_clean_close_and_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for place in range(30):
        stage(log, 2, producer_id=7, producer_epoch=1, base_sequence=place * 2)
    log.close()
    for clean in (True, False):
        log = open_log(tmp_path, clean=clean)
        ((producer_id, state),) = log.producers.items()
        assert (producer_id, state.epoch, state.last_sequence) == (7, 1, 59)


def replicate(leader: PartitionLog, follower: PartitionLog, max_bytes: int = 700) -> None:
    """Do what a follower does: read whole batches behind its end, stage them, sync."""
    while follower.log_end_offset < leader.written_offset:
        found = leader.read(follower.log_end_offset, max_bytes, leader.written_offset).read()
        whole = [batch for batch in iterate_batches(found) if len(batch) >= read_header(batch).size_bytes]
        follower.stage_replicated(b"".join(whole), [read_header(batch) for batch in whole])
        follower.write(True)


def content(log: PartitionLog) -> bytes:
    return b"".join(bytes(batch) for batch in log.read_batches())


def test_a_follower_has_its_leaders_log_to_the_byte(tmp_path: Path) -> None:
    leader = open_log(tmp_path / "leader")
    follower = open_log(tmp_path / "follower")
    for epoch in (0, 3, 4):
        for place in range(12):
            stage(leader, 2, epoch=epoch, producer_id=7, producer_epoch=epoch, base_sequence=place * 2)
    leader.write(True)
    replicate(leader, follower)
    assert content(follower) == content(leader)
    assert follower.flushed_offset == leader.log_end_offset == 72
    assert [follower.end_offset_for_epoch(each) for each in (0, 2, 4)] == [(0, 24), (0, 24), (4, 72)]
    assert dict(follower.producers.items()) == dict(leader.producers.items())
    follower.close()
    again = open_log(tmp_path / "follower", clean=False)
    assert (content(again), again.latest_epoch, again.epoch_at(24)) == (content(leader), 4, 3)


def test_a_followers_log_has_the_gaps_that_its_leaders_has(tmp_path: Path) -> None:
    follower = open_log(tmp_path)
    batch = bytearray(build_batch([(1000, b"key", b"value", ())]))
    batch[0:8] = (40).to_bytes(8, "big")
    follower.stage_replicated(bytes(batch), [read_header(batch)])
    follower.write(True)
    assert (follower.log_end_offset, read_offsets(follower)) == (41, [40])


def test_a_follower_refuses_batches_before_its_end(tmp_path: Path) -> None:
    follower = open_log(tmp_path)
    stage(follower, 5)
    batch = build_batch([(1000, b"key", b"value", ())])
    with pytest.raises(StorageError, match="can't follow a log's end at 5"):
        follower.stage_replicated(batch, [read_header(batch)])
    assert follower.log_end_offset == 5


def test_a_failed_open_has_the_reason(tmp_path: Path) -> None:
    (tmp_path / "orders-0").write_text("no folder")
    with pytest.raises(StorageError, match="cannot be opened"):
        open_log(tmp_path)
