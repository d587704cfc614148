"""The keys of a host's brokers on the disk: what was acknowledged is there after any crash."""

import random
from pathlib import Path

import pytest

from kohort.broker.etcd.key_store import Entry
from kohort.broker.host import key_log
from kohort.broker.host.key_log import KeyLog
from kohort.storage import StorageError
from kohort.storage.memory_filesystem import MemoryFileSystem

FILE = Path("/data/workers/metadata.jsonl")


def files() -> MemoryFileSystem:
    made = MemoryFileSystem()
    made.make_directory(FILE.parent)
    return made


def put(name: str, revision: int, value: str = "v", lease: int = 0) -> Entry:
    return Entry(name.encode(), value.encode(), revision, revision, 1, lease)


def gone(name: str, revision: int) -> Entry:
    return Entry(name.encode(), None, 0, revision, 0, 0)


def test_written_keys_are_found_and_deleted_ones_are_not() -> None:
    disk = files()
    log = KeyLog(disk, FILE)
    log.append([put("a", 2), put("b", 2)], 2)
    log.append([gone("a", 3), put("c", 3, "Ä", lease=7)], 3)
    again = KeyLog(disk, FILE)
    assert again.entries == {b"b": put("b", 2), b"c": put("c", 3, "Ä", lease=7)}
    assert again.revision == 3


@pytest.mark.parametrize("seed", range(30))
def test_any_crash_keeps_acknowledged_changes_and_adds_none(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_log, "REWRITE_BYTES_MIN", 600)
    monkeypatch.setattr(key_log, "REWRITE_GROWTH", 1)
    chosen = random.Random(seed)
    disk = files()
    log = KeyLog(disk, FILE)
    states: list[tuple[int, dict[bytes, Entry]]] = [(0, {})]
    for revision in range(2, 30):
        name = f"key-{chosen.randrange(5)}"
        log.append([put(name, revision, "x" * chosen.randrange(80))], revision)
        states.append((len(disk.operations), dict(log.entries)))
    for _ in range(40):
        count = chosen.randrange(len(disk.operations) + 1)
        found = KeyLog(disk.after_crash(count, chosen.randrange), FILE).entries
        acknowledged = max(index for index, (done, _) in enumerate(states) if done <= count)
        assert found in [state for _, state in states[acknowledged : acknowledged + 2]], f"seed {seed}"


def test_a_line_that_is_damaged_before_others_stops_the_start() -> None:
    disk = files()
    log = KeyLog(disk, FILE)
    for revision in range(2, 5):
        log.append([put(f"key-{revision}", revision)], revision)
    content = disk.read(FILE)
    assert content is not None
    place = content.index(b"key-3")
    disk.replace(FILE, content[:place] + b"X" + content[place + 1 :])
    with pytest.raises(StorageError, match="is damaged in line 2"):
        KeyLog(disk, FILE)


def test_a_change_that_the_disk_refuses_is_missing_and_the_next_is_kept() -> None:
    disk = files()
    log = KeyLog(disk, FILE)
    log.append([put("a", 2)], 2)
    disk.room_bytes = 3
    with pytest.raises(StorageError, match="can't be written"):
        log.append([put("b", 3)], 3)
    assert log.entries.keys() == {b"a"}
    disk.room_bytes = None
    log.append([put("c", 3)], 3)
    assert KeyLog(disk, FILE).entries.keys() == {b"a", b"c"}


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_change_with_a_failed_sync_does_not_count_after_a_crash(failures: int) -> None:
    disk = files()
    log = KeyLog(disk, FILE)
    log.append([put("a", 2)], 2)
    log.append([put("b", 3)], 3)
    disk.syncs_until_failure, disk.failures_behind_it = 0, failures - 1
    with pytest.raises(StorageError, match="can't be written"):
        log.append([put("refused", 4)], 4)
    for survivor in (disk.after_crash(), disk.after_crash(choose=lambda _: 0)):
        found = KeyLog(survivor, FILE)
        assert (set(found.entries), found.revision) == ({b"a", b"b"}, 3)
    disk.syncs_until_failure, disk.failures_behind_it = None, 0
    log.append([put("c", 4)], 4)
    found = KeyLog(disk.after_crash(choose=lambda _: 0), FILE)
    assert (set(found.entries), found.revision) == ({b"a", b"b", b"c"}, 4)


@pytest.mark.parametrize("left_bytes", [0, 3, 40])
def test_a_change_written_in_part_to_a_full_disk_does_not_count_after_a_crash(left_bytes: int) -> None:
    disk = files()
    log = KeyLog(disk, FILE)
    log.append([put("a", 2)], 2)
    log.append([put("b", 3)], 3)
    disk.room_bytes = left_bytes
    with pytest.raises(StorageError, match="can't be written"):
        log.append([put("refused", 4, "x" * 100)], 4)
    assert KeyLog(disk.after_crash(), FILE).entries.keys() == {b"a", b"b"}


def test_the_file_does_not_grow_with_the_number_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_log, "REWRITE_BYTES_MIN", 1_000)
    disk = files()
    log = KeyLog(disk, FILE)
    for revision in range(2, 500):
        log.append([put("a", revision)], revision)
    content = disk.read(FILE)
    assert content is not None
    assert len(content) < 1_500
    assert KeyLog(disk, FILE).entries == {b"a": put("a", 499)}
