import os
from pathlib import Path

import pytest

from kohort.storage.unsynced import UnsyncedFileSystem


@pytest.fixture
def never_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise AssertionError(f"descriptor {descriptor} was synced")

    monkeypatch.setattr("kohort.storage.filesystem.sync_data", refuse, raising=False)
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, refuse)


@pytest.mark.usefixtures("never_synced")
def test_unsynced_bytes_are_read_back(tmp_path: Path) -> None:
    files = UnsyncedFileSystem()
    file = files.open(tmp_path / "log", create=True)
    file.write_at([b"one", b"two"], 0)
    file.sync()
    file.reread()
    file.truncate(5)
    assert (file.size(), file.read_at(10, 1)) == (5, b"netw")
    assert os.pread(file.file_descriptor, 3, 0) == b"one"
    files.replace(tmp_path / "small", b"content")
    files.sync_directory(tmp_path)
    assert UnsyncedFileSystem().read(tmp_path / "small") == b"content"
    assert UnsyncedFileSystem().open(tmp_path / "log").read_at(5, 0) == b"onetw"


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        UnsyncedFileSystem().sync_directory(tmp_path / "gone")


def test_a_file_closes_with_its_last_holder(tmp_path: Path) -> None:
    file = UnsyncedFileSystem().open(tmp_path / "log", create=True)
    descriptor = file.file_descriptor
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
