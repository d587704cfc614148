"""What `verify_data` finds: each kind of damage is named with its file, and sound folders are praised."""

import struct
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from kohort.protocol.records import batch_crc, build_batch, empty_batch, iterate_batches, read_header
from kohort.storage import DataDirectory, LogConfig, OsFileSystem, StorageError
from kohort.storage.verify import VerifyOptions, log_bytes, verify_data

CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=300)
FIRST = "00000000000000000000"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition of several segments, closed cleanly."""
    directory = DataDirectory.open(tmp_path, OsFileSystem())
    log = directory.open_log("orders", UUID(int=5), 0, CONFIG)
    for number in range(60):
        batch = build_batch([(1000 + number, b"key", b"v" * 50, ())] * 2)
        log.stage(batch, (read_header(batch),), number // 20)
    directory.close()
    return tmp_path / "orders-0"


def problems(folder: Path, **options: bool) -> list[str]:
    report = verify_data(OsFileSystem(), folder.parent, VerifyOptions(**options))  # type: ignore[arg-type]
    return [str(each).removeprefix(f"{folder.parent}/") for each in report.problems]


def test_a_sound_folder_has_no_problems_and_is_counted(folder: Path) -> None:
    seen: list[int] = []
    report = verify_data(OsFileSystem(), folder.parent, VerifyOptions(deep=True), seen.append)
    assert report.problems == []
    assert (report.partitions, report.batches, report.records) == (1, 60, 120)
    assert report.size_bytes == sum(seen) == log_bytes(OsFileSystem(), folder.parent)
    assert verify_data(OsFileSystem(), folder).batches == 60


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x40
    path.write_bytes(content)


def remove_second_batch(path: Path) -> None:
    content = path.read_bytes()
    size = read_header(content).size_bytes
    path.write_bytes(content[:size] + content[2 * size :])


def swap_batches(path: Path) -> None:
    content = path.read_bytes()
    size = read_header(content).size_bytes
    path.write_bytes(content[size : 2 * size] + content[:size] + content[2 * size :])


def cut_an_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-12])


def age(path: Path) -> None:
    """Give the second batch the leader epoch 9: it lies outside the CRC."""
    content = bytearray(path.read_bytes())
    start = read_header(bytes(content)).size_bytes + 12
    content[start : start + 4] = struct.pack(">i", 9)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "damage", "expected"),
    [
        (f"{FIRST}.log", lambda path: flip(path, 100), "the CRC of the batch at 0 is wrong"),
        (f"{FIRST}.log", lambda path: flip(path, 16), "no whole batch in the last"),
        (f"{FIRST}.log", remove_second_batch, "the batch at offset 4 comes where 2 is missing"),
        (f"{FIRST}.log", swap_batches, "the batch at offset 0 stands behind offset 3"),
        (f"{FIRST}.log", age, "has leader epoch 9, the checkpoint says 0"),
        (f"{FIRST}.index", lambda path: flip(path, 7), "no batch begins at"),
        (f"{FIRST}.index", Path.unlink, "is missing: the next start builds it anew"),
        (f"{FIRST}.timeindex", lambda path: flip(path, 7), "timestamp"),
        (f"{FIRST}.timeindex", cut_an_entry, "the newest record is of"),
        ("leader-epoch-checkpoint", lambda path: path.write_text("0\n2\n0 0\n"), "is damaged"),
        ("partition.metadata", lambda path: path.write_text("version: 0"), "names no topic id"),
        ("00000000000000000120.snapshot", lambda path: flip(path, 9), "is damaged"),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_file(
    folder: Path, name: str, damage: Callable[[Path], object], expected: str
) -> None:
    damage(folder / name)
    found = problems(folder)
    assert any(text.startswith(f"orders-0/{name}: ") and expected in text for text in found), found


def test_a_log_that_ends_before_its_recovery_point_was_lost_by_the_disk(folder: Path) -> None:
    newest = max(folder.glob("*.log"))
    newest.write_bytes(newest.read_bytes()[:10])
    assert any("is said to have offset 120" in text for text in problems(folder))


def test_gaps_are_allowed_in_compacted_topics(folder: Path) -> None:
    remove_second_batch(folder / f"{FIRST}.log")
    report = verify_data(OsFileSystem(), folder.parent, VerifyOptions(compacted=("orders",)))
    assert not any("is missing" in each.text for each in report.problems)
    (folder.parent / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    assert not any("is missing" in text for text in problems(folder))


def test_a_segment_with_one_empty_batch_from_compaction_is_valid(folder: Path) -> None:
    first = folder / f"{FIRST}.log"
    last = list(iterate_batches(first.read_bytes()))[-1]
    first.write_bytes(empty_batch(read_header(last)))
    for suffix in (".index", ".timeindex"):
        first.with_suffix(suffix).write_bytes(b"")
    (folder.parent / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    assert problems(folder) == []


def test_records_are_checked_on_request(folder: Path) -> None:
    batch = bytearray(build_batch([(5, None, b"value", ())]))
    batch[57:61] = struct.pack(">i", 3)  # The record count, with a CRC that is right.
    batch[23:27] = struct.pack(">i", 2)
    batch[17:21] = struct.pack(">I", batch_crc(batch))
    batch[0:8] = struct.pack(">q", 120)
    batch[12:16] = struct.pack(">i", 2)
    newest = max(folder.glob("*.log"))
    newest.write_bytes(newest.read_bytes() + batch)
    assert problems(folder) == []
    assert any("cannot be read" in text for text in problems(folder, deep=True))


def test_a_folder_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="neither a data folder"):
        verify_data(OsFileSystem(), tmp_path)
