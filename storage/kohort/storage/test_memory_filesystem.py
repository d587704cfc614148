"""The file system in memory behaves as the real one, and loses what a dead machine loses."""

import os
from pathlib import Path

import pytest

from kohort.storage.filesystem import FileSystem, OsFileSystem
from kohort.storage.memory_filesystem import MemoryFileSystem


def exercise(file_system: FileSystem, root: str) -> list[object]:
    """Return what a series of calls says; the same of every file system."""
    seen: list[object] = [file_system.list_directory(f"{root}/a"), file_system.read(f"{root}/a/x")]
    file_system.make_directory(f"{root}/a/b")
    file = file_system.open(f"{root}/a/x", create=True)
    file.write_at([b"one", bytearray(b"two")], 2)
    file.write_at([b"!"], 10)
    seen += [file.size(), file.read_at(100, 1), os.pread(file.file_descriptor, 100, 0)]
    file.truncate(4)
    seen += [file.read_at(100, 0), os.pread(file.file_descriptor, 100, 0)]
    file.sync()
    file_system.replace(f"{root}/a/y", b"new")
    file_system.replace(f"{root}/a/y", b"newer", sync=False)
    file_system.rename(f"{root}/a", f"{root}/c")
    file_system.sync_directory(root)
    seen += [sorted(file_system.list_directory(f"{root}/c") or []), file_system.read(f"{root}/c/y")]
    seen += [file_system.size(f"{root}/{name}") for name in ("c/y", "c/x", "a/x")]
    file_system.remove(f"{root}/c/y")
    file_system.remove(f"{root}/c/y")
    file_system.remove_directory(f"{root}/c/b")
    file_system.remove_directory(f"{root}/c/b")
    seen += [file_system.list_directory(f"{root}/c"), file.read_at(2, 2)]
    lock = file_system.lock(f"{root}/.lock")
    seen += [lock is not None, file_system.lock(f"{root}/.lock")]
    del lock
    seen.append(file_system.lock(f"{root}/.lock") is not None)
    return seen


def test_both_file_systems_behave_the_same(tmp_path: Path) -> None:
    memory = MemoryFileSystem()
    memory.make_directory("/root")
    assert exercise(memory, "/root") == exercise(OsFileSystem(), str(tmp_path))


@pytest.mark.parametrize("kind", [MemoryFileSystem, OsFileSystem])
def test_a_file_that_is_not_there_is_not_opened(kind: type[FileSystem], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kind().open(tmp_path / "missing")


def written() -> MemoryFileSystem:
    file_system = MemoryFileSystem()
    file_system.make_directory("/d")
    file = file_system.open("/d/x", create=True)
    file_system.sync_directory("/d")
    file.write_at([b"synced"], 0)
    file.sync()
    file.write_at([b" not"], 6)
    file_system.open("/d/new", create=True)
    return file_system


def test_a_dead_process_loses_nothing() -> None:
    survivor = written().after_crash()
    assert survivor.read("/d/x") == b"synced not"
    assert survivor.read("/d/new") == b""


def test_a_power_failure_loses_unsynced_bytes() -> None:
    survivor = written().after_crash(choose=lambda _: 0)
    assert survivor.read("/d/x") == b"synced"
    assert survivor.read("/d/new") is None
    assert survivor.after_crash(choose=lambda _: 0).read("/d/x") == b"synced"


def test_a_power_failure_can_tear_a_write() -> None:
    assert written().after_crash(choose=lambda limit: min(2, limit - 1)).read("/d/x") == b"synced n"


def test_a_crash_can_follow_any_operation() -> None:
    file_system = written()
    counts = range(len(file_system.operations))
    assert [file_system.after_crash(count).read("/d/x") for count in counts] == [
        None,
        None,
        None,
        b"",
        b"",
        b"synced",
        b"synced",
        b"synced not",
    ]


def test_bytes_of_a_failed_sync_are_lost_although_a_later_sync_succeeds() -> None:
    file_system = written()
    file_system.syncs_until_failure = 0
    file = file_system.open("/d/x")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    assert file.read_at(100, 0) == b"synced not"
    assert file_system.after_crash(choose=lambda limit: limit - 1).read("/d/x") == b"synced"


def test_lost_bytes_that_were_reread_do_not_return_when_a_process_dies() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/d")
    file = disk.open("/d/x", create=True)
    file.write_at([b"kept"], 0)
    file.sync()
    file.write_at([b"lost"], 4)
    disk.syncs_until_failure = 0
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    before = len(disk.operations)
    file.reread()
    assert file.read_at(10, 0) == b"kept"
    assert disk.after_crash(before).read("/d/x") == b"keptlost"
    assert disk.after_crash().read("/d/x") == b"kept"


def test_a_folder_that_fails_neither_opens_nor_syncs_its_files_and_others_work() -> None:
    disk = written()
    disk.make_directory("/other")
    file, other = disk.open("/d/x"), disk.open("/other/x", create=True)
    disk.failing_folders.add("/d")
    with pytest.raises(OSError, match="Input/output"):
        disk.open("/d/x")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    other.write_at([b"other"], 0)
    other.sync()
    disk.failing_folders.clear()
    disk.open("/d/x").sync()
    survivor = disk.after_crash(choose=lambda limit: limit - 1)
    assert survivor.read("/d/x") == b"synced"
    assert survivor.read("/other/x") == b"other"
