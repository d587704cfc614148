"""A start after a crash reads the newest segment from where it is known to be on the disk, and no more."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol.errors import WireError
from kohort.protocol.records import build_batch, iterate_batches, read_header
from kohort.protocol.records.header import CRC_COVERS_FROM
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, PartitionLog, writable_log
from kohort.storage.recovery_point import RECOVERY_POINT, RecoveryPoint
from kohort.storage.test_recovery import CountingFileSystem, offsets, offsets_by_reads
from tests.repetitions import repetitions

TOPIC_ID = UUID(int=3)
CONFIG = LogConfig(segment_bytes=1_000_000, index_interval_bytes=150)
STEP_BYTES = 2_000
BATCH_BYTES = 74
PRODUCER = 7
FIRST_READ_BYTES = 16_384  # For the first batch, whose time says how old the segment is.


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writable_log, "RECOVERY_STEP_BYTES", STEP_BYTES)


def opened(
    path: Path, file_system: OsFileSystem | None = None, config: LogConfig = CONFIG
) -> tuple[DataDirectory, PartitionLog]:
    directory = DataDirectory.open(path, file_system or OsFileSystem())
    return directory, directory.open_log("orders", TOPIC_ID, 0, config)


def stage(log: PartitionLog, count: int, *, sync: bool = True, epoch: int = 0) -> None:
    for _ in range(count):
        number = log.log_end_offset
        batch = build_batch(
            [(1_000 + number, None, b"%06d" % number, ())],
            base_offset=number,
            leader_epoch=epoch,
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=number,
        )
        log.stage(batch, (read_header(batch),), epoch)
        log.write(sync)


def killed(path: Path, count: int = 500, unsynced: int = 5, config: LogConfig = CONFIG) -> Path:
    """Leave a log as kill -9 does; return its folder."""
    _, log = opened(path, config=config)
    stage(log, count)
    stage(log, unsynced, sync=False)
    return path / "orders-0"


def read_bytes(counts: CountingFileSystem) -> int:
    return sum(size for name, size in counts.read_bytes.items() if name.endswith(".log"))


@pytest.mark.parametrize("count", [1_000, 3_000])
def test_recovery_reads_the_same_amount_for_any_synced_size(tmp_path: Path, count: int) -> None:
    killed(tmp_path, count)
    counts = CountingFileSystem()
    _, log = opened(tmp_path, counts)
    assert log.log_end_offset == count + 5
    assert read_bytes(counts) < FIRST_READ_BYTES + 5 * STEP_BYTES
    assert offsets(log) == offsets_by_reads(log) == list(range(count + 5))
    assert log.producers.encode_snapshot() == whole(tmp_path, count + 5)
    assert log.latest_epoch == 0
    stage(log, 3)
    assert log.log_end_offset == count + 8


def whole(path: Path, count: int) -> bytes:
    """Return what a log knows of its producers that has never been closed."""
    _, log = opened(path.parent / f"{path.name}-whole")
    stage(log, count)
    return log.producers.encode_snapshot()


def test_a_recovery_point_survives_both_kinds_of_start(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    before = (folder / RECOVERY_POINT).read_bytes()
    directory, _ = opened(tmp_path)
    directory.close()
    _, log = opened(tmp_path)
    assert (folder / RECOVERY_POINT).read_bytes() == before
    stage(log, 2 * STEP_BYTES // BATCH_BYTES)
    after = RecoveryPoint.decode((folder / RECOVERY_POINT).read_bytes())
    assert after is not None
    assert after != RecoveryPoint.decode(before)
    assert after.offset <= log.log_end_offset


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "changed", "of another version"])
def test_a_point_that_is_damaged_is_not_believed(tmp_path: Path, damage: str) -> None:
    folder = killed(tmp_path)
    file = folder / RECOVERY_POINT
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        changed = content.replace(b"\n0 ", b"\n1 ", 1)
        other = {
            "empty": b"",
            "cut": content[:-3],
            "changed": changed,
            "of another version": b"1" + content[1:],
        }
        file.write_bytes(other[damage])
    check_read_whole(tmp_path)
    assert not file.exists()


def check_read_whole(path: Path) -> None:
    """Start, and find all there is by reading the whole segment."""
    counts = CountingFileSystem()
    _, log = opened(path, counts)
    assert read_bytes(counts) >= (path / "orders-0" / f"{0:020d}.log").stat().st_size
    assert offsets(log) == offsets_by_reads(log) == list(range(505))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_shorter_than_the_recovery_point_are_rebuilt(tmp_path: Path, suffix: str) -> None:
    folder = killed(tmp_path)
    file = folder / f"{0:020d}{suffix}"
    file.write_bytes(file.read_bytes()[:24])
    check_read_whole(tmp_path)


def test_an_index_with_a_wrong_entry_is_rebuilt(tmp_path: Path) -> None:
    folder = killed(tmp_path)
    point = RecoveryPoint.decode((folder / RECOVERY_POINT).read_bytes())
    assert point is not None
    file = folder / f"{0:020d}.index"
    content = bytearray(file.read_bytes())
    content[point.index_bytes - 1] ^= 1
    file.write_bytes(bytes(content))
    check_read_whole(tmp_path)


def test_epochs_before_a_recovery_point_are_kept_and_later_ones_are_found(tmp_path: Path) -> None:
    directory, log = opened(tmp_path)
    for epoch in range(4):
        stage(log, 100, epoch=epoch)
    stage(log, 3, sync=False, epoch=9)
    expected = [log.end_offset_for_epoch(epoch) for epoch in range(10)]
    del directory, log
    _, log = opened(tmp_path)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(10)] == expected


def test_a_log_that_is_cut_in_front_of_its_point_has_none(tmp_path: Path) -> None:
    directory, log = opened(tmp_path)
    stage(log, 500)
    file = tmp_path / "orders-0" / RECOVERY_POINT
    point = RecoveryPoint.decode(file.read_bytes())
    assert point is not None
    log.truncate_to(point.offset)
    assert file.exists()
    log.truncate_to(point.offset - 1)
    assert not file.exists()
    stage(log, 20, sync=False)
    del directory, log
    counts = CountingFileSystem()
    _, log = opened(tmp_path, counts)
    assert read_bytes(counts) >= point.size_bytes
    assert log.log_end_offset == point.offset + 19


def test_a_new_segment_starts_without_a_recovery_point(tmp_path: Path) -> None:
    directory, log = opened(tmp_path, config=LogConfig(segment_bytes=10_000, index_interval_bytes=150))
    file = tmp_path / "orders-0" / RECOVERY_POINT
    bases = set()
    for _ in range(500):
        segments = log.segment_count
        stage(log, 1)
        if log.segment_count > segments:
            assert not file.exists()
        elif file.exists():
            point = RecoveryPoint.decode(file.read_bytes())
            assert point is not None
            bases.add(point.base_offset)
    assert len(bases) == log.segment_count
    snapshots = list((tmp_path / "orders-0").glob("*.snapshot"))
    assert len(snapshots) <= 3
    directory.close()


@settings(max_examples=repetitions(40, by_night=400))
@given(data=st.data())
def test_any_damage_after_the_recovery_point_leaves_the_longest_valid_prefix(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Behind the point anything may be missing or ruined, of the indexes and epochs as well."""
    path = tmp_path_factory.mktemp("cut")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writable_log, "RECOVERY_STEP_BYTES", STEP_BYTES)
        folder = killed(path, 100, 40)
        point = RecoveryPoint.decode((folder / RECOVERY_POINT).read_bytes())
        assert point is not None
        file = folder / f"{0:020d}.log"
        content = bytearray(file.read_bytes())
        size = data.draw(st.integers(point.size_bytes, len(content)), label="size")
        if data.draw(st.booleans(), label="ruined"):
            number = data.draw(
                st.integers(0, (len(content) - point.size_bytes) // BATCH_BYTES - 1), label="batch"
            )
            place = data.draw(st.integers(CRC_COVERS_FROM, BATCH_BYTES - 1), label="at")
            content[point.size_bytes + number * BATCH_BYTES + place] ^= 0x55
        file.write_bytes(content[:size])
        for suffix, least in ((".index", point.index_bytes), (".timeindex", point.time_index_bytes)):
            index = folder / f"{0:020d}{suffix}"
            entries = index.read_bytes()
            index.write_bytes(entries[: data.draw(st.integers(least, len(entries)), label=suffix)])
        expected = [read_header(each).base_offset for each in valid(bytes(content[:size]))]
        _, log = opened(path)
        assert offsets(log) == offsets_by_reads(log) == expected
        assert log.log_end_offset == len(expected) >= point.offset
        stage(log, 60)
        copy = path.parent / f"{path.name}-copy"
        shutil.copytree(path, copy)
        _, again = opened(copy)
        assert offsets(again) == [*range(len(expected) + 60)]


def valid(content: bytes) -> list[memoryview]:
    """Return the batches up to the first one that is damaged or not whole."""
    found = []
    with suppress(WireError):
        for batch in iterate_batches(content, check_crcs=True):
            found.append(batch)
    return found
