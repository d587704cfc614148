"""What compaction keeps: newest values, tombstones for a while, markers, the last words of producers."""

from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import (
    Compression,
    ControlType,
    build_batch,
    build_transaction_marker,
    iterate_records,
    read_header,
)
from kohort.storage import DataDirectory, LogConfig, PartitionLog, StorageError
from kohort.storage.cleaning import LogCleaning, plan_cleaning
from kohort.storage.compaction import KEY_BYTES_MAX, NewestOffsets
from kohort.storage.memory_filesystem import MemoryFileSystem

TOPIC_ID = UUID(int=3)
HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS
CONFIG = LogConfig(
    segment_bytes=400,
    index_interval_bytes=100,
    cleanup_policy=("compact",),
    delete_retention_ms=HOUR_MS,
    min_cleanable_dirty_ratio=0.0,
)

Pairs = Iterable[tuple[bytes | None, bytes | None]]


class Compacted:
    """A log in memory that is compacted when told to."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.file_system = MemoryFileSystem()
        self.directory = DataDirectory.open(Path("/data"), self.file_system)
        self.log = self.directory.open_log("orders", TOPIC_ID, 0, config)
        self.checkpoint: int | None = None

    def append(self, pairs: Pairs, timestamp: int = 1000, **numbers: object) -> int:
        batch = build_batch([(timestamp, key, value, ()) for key, value in pairs], **numbers)  # type: ignore[arg-type]
        return self.append_batch(batch)

    def append_batch(self, batch: bytes) -> int:
        offset = self.log.stage(batch, (read_header(batch),), 0)
        self.log.write(True)
        return offset

    def end_transaction(self, kind: ControlType, producer_id: int) -> int:
        return self.append_batch(
            build_transaction_marker(
                kind, timestamp_ms=1000, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
            )
        )

    def roll(self) -> None:
        """Seal what there is: the next batch fills a segment of its own."""
        self.append([(b"filler", b"x" * 350)])

    def clean(self, now_ms: int = NOW_MS, keys_max: int = 1000, stable: int | None = None) -> LogCleaning:
        log = self.log
        plan = plan_cleaning(
            log.segments,
            log.config,
            checkpoint=self.checkpoint,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.written_offset if stable is None else stable,
            now_ms=now_ms,
        )
        cleaning = LogCleaning.of(log, plan, now_ms=now_ms, keys_max=keys_max, progress=lambda _: None)
        for replacement in cleaning.replacements():
            assert log.replace_segments(replacement, now_ms)
        self.checkpoint = cleaning.end_offset
        return cleaning

    def reopened(self) -> PartitionLog:
        """Return the log as a new process finds it."""
        survivor = self.file_system.after_crash()
        return DataDirectory.open(Path("/data"), survivor).open_log("orders", TOPIC_ID, 0, self.log.config)


def contents(log: PartitionLog, *, but: bytes = b"filler") -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for batch in log.read_batches()
        for record in iterate_records(batch)
        if record.key != but
    ]


def test_the_newest_value_of_each_key_keeps_its_offset() -> None:
    world = Compacted()
    for number in range(10):
        world.append([(b"a", b"%d" % number), (b"b", b"%d" % number)])
    world.roll()
    world.roll()
    world.clean()
    assert contents(world.log) == contents(world.reopened()) == [(18, b"a", b"9"), (19, b"b", b"9")]
    assert world.checkpoint == world.log.segments[-1].base_offset


def test_the_active_segment_and_unstable_records_are_not_compacted() -> None:
    world = Compacted()
    world.append([(b"a", b"1")])
    world.append([(b"a", b"2")])
    world.clean()
    assert len(contents(world.log)) == 2
    world.roll()
    world.roll()
    world.clean(stable=1)
    assert len(contents(world.log)) == 2


@pytest.mark.parametrize("compression", list(Compression))
def test_the_rest_of_a_compressed_batch_keeps_its_compression(compression: Compression) -> None:
    world = Compacted()
    world.append([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], compression=compression)
    world.append([(b"b", b"2")])
    world.roll()
    world.roll()
    world.clean()
    first = read_header(next(world.log.read_batches()))
    assert (first.compression, first.record_count, first.last_offset_delta) == (compression, 2, 2)
    assert contents(world.log) == [(0, b"a", b"1"), (2, b"c", b"1"), (3, b"b", b"2")]


def test_a_tombstone_stays_until_its_delete_horizon_and_keeps_its_timestamp() -> None:
    world = Compacted()
    world.append([(b"a", b"1")])
    world.append([(b"a", None), (b"b", b"1")], timestamp=5000)
    world.roll()
    world.roll()
    world.clean()
    (header,) = [read_header(b) for b in world.log.read_batches() if read_header(b).has_delete_horizon]
    assert header.base_timestamp == NOW_MS + HOUR_MS
    assert header.max_timestamp == 5000
    (tombstone, _) = [r for b in world.log.read_batches(1) for r in iterate_records(b)][:2]
    assert (tombstone.offset, tombstone.value, tombstone.timestamp) == (1, None, 5000)
    world.checkpoint = None
    world.clean(now_ms=NOW_MS + HOUR_MS - 1)
    assert (1, b"a", None) in contents(world.log)
    world.checkpoint = None
    world.clean(now_ms=NOW_MS + HOUR_MS)
    assert contents(world.log) == [(2, b"b", b"1")]
    assert contents(world.reopened()) == [(2, b"b", b"1")]


def test_a_record_without_a_key_is_removed() -> None:
    world = Compacted()
    world.append([(None, b"lost"), (b"a", b"1")])
    world.roll()
    world.roll()
    world.clean()
    assert contents(world.log) == [(1, b"a", b"1")]


def test_the_last_batch_of_a_producer_is_kept_for_its_sequence_number() -> None:
    world = Compacted()
    for sequence in range(3):
        world.append([(b"a", b"1")], producer_id=7, producer_epoch=0, base_sequence=sequence)
    world.append([(b"a", b"newest")])
    world.roll()
    world.roll()
    world.clean()
    kept = [read_header(batch) for batch in world.log.read_batches()]
    of_producer = [each for each in kept if each.producer_id == 7]
    assert [(each.base_offset, each.record_count, each.base_sequence) for each in of_producer] == [(2, 0, 2)]
    assert dict(world.reopened().producers.items())[7].last_sequence == 2


def test_an_aborted_transaction_is_removed_and_its_marker_follows_after_the_horizon() -> None:
    world = Compacted()
    world.append([(b"a", b"committed")])
    transaction = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    world.append([(b"a", b"aborted")], base_sequence=0, **transaction)
    world.end_transaction(ControlType.ABORT, 7)
    world.append([(b"b", b"1")], base_sequence=1, **transaction)
    world.end_transaction(ControlType.COMMIT, 7)
    world.roll()
    world.roll()
    world.clean()
    markers = [read_header(b) for b in world.log.read_batches() if read_header(b).is_control]
    assert (0, b"a", b"committed") in contents(world.log)
    assert (1, b"a", b"aborted") not in contents(world.log)
    assert [each.base_offset for each in markers] == [2, 4]
    for hours in (1, 3, 5):
        world.checkpoint = None
        world.clean(now_ms=NOW_MS + hours * HOUR_MS)
    markers = [read_header(b) for b in world.log.read_batches() if read_header(b).is_control]
    assert [each.base_offset for each in markers] == [4], "data of the committed transaction is still there"


def test_a_full_map_ends_the_round_early_and_the_next_one_continues() -> None:
    world = Compacted()
    for _ in range(2):
        for number in range(40):
            world.append([(b"%d" % number, b"x" * 20)])
    world.roll()
    world.roll()
    rounds = 0
    while world.checkpoint is None or world.checkpoint < world.log.segments[-1].base_offset:
        world.clean(keys_max=9)
        rounds += 1
    assert rounds > 4
    assert [offset for offset, _, _ in contents(world.log)] == list(range(40, 80))


def test_long_keys_are_distinguished_by_a_digest() -> None:
    newest = NewestOffsets(10)
    keys = [b"k" * (KEY_BYTES_MAX + 5), b"k" * (KEY_BYTES_MAX + 6), b"k" * (KEY_BYTES_MAX - 1)]
    batch = build_batch([(0, key, b"", ()) for key in keys])
    newest.note(read_header(batch), batch)
    assert len(newest) == 3
    assert [newest.is_newest(key, 1) for key in keys] == [True, True, False]


def test_a_damaged_batch_ends_the_round_and_changes_nothing() -> None:
    world = Compacted()
    for _ in range(8):
        world.append([(b"a", b"x" * 60)])
    first = world.log.segments[0]
    first.file.write_at([b"?"], 90)
    before = [segment.size_bytes for segment in world.log.segments]
    with pytest.raises(StorageError, match="damaged"):
        world.clean()
    assert [segment.size_bytes for segment in world.log.segments] == before
    names = world.file_system.list_directory("/data/orders-0") or []
    assert not [name for name in names if name.endswith(".cleaned")]


@pytest.mark.parametrize(("lag_ms", "cleaned"), [(0, True), (NOW_MS - 1500, True), (NOW_MS - 500, False)])
def test_records_younger_than_the_minimum_lag_are_not_compacted(lag_ms: int, cleaned: bool) -> None:
    world = Compacted()
    world.log.config = LogConfig(segment_bytes=400, cleanup_policy=("compact",), min_compaction_lag_ms=lag_ms)
    world.append([(b"a", b"1")])
    world.append([(b"a", b"2")])
    world.roll()
    world.roll()
    world.clean()
    assert (len(contents(world.log)) == 1) is cleaned


def test_small_segments_are_merged_and_old_files_are_deleted_after_the_delay() -> None:
    world = Compacted()
    for _ in range(12):
        world.append([(b"a", b"x" * 150)])
    count = world.log.segment_count
    world.clean()
    world.checkpoint = None
    world.clean()
    assert world.log.segment_count < count
    names = world.file_system.list_directory("/data/orders-0") or []
    deleted = [name for name in names if name.endswith(".deleted")]
    assert len(deleted) >= count - 2
    delay_ms = world.log.config.file_delete_delay_ms
    assert world.log.remove_deleted_files(NOW_MS + delay_ms - 1) == 0
    assert world.log.remove_deleted_files(NOW_MS + delay_ms) == len(deleted)
    names = world.file_system.list_directory("/data/orders-0") or []
    assert not [name for name in names if name.endswith(".deleted")]


def test_a_slice_and_a_replay_that_began_before_go_on() -> None:
    world = Compacted()
    for number in range(12):
        world.append([(b"a", b"%d" % number * 60)])
    held = world.log.read(0, 10_000, world.log.written_offset)
    replay = world.log.read_batches()
    before = [read_header(next(replay)).base_offset]
    world.clean()
    world.log.remove_deleted_files(NOW_MS * 2)
    before += [read_header(batch).base_offset for batch in replay]
    assert read_header(held.read()).base_offset == 0
    assert before == sorted(set(before))
    assert before[-1] == 11
