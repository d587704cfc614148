"""The operating system's file system: what a sync promises."""

import ctypes
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.storage import OsFileSystem, filesystem
from kohort.storage.filesystem import choose_count_links
from kohort.storage.operating_system import choose_sync

FULL_SYNC = 51


class Machine:
    """Remembers how it was asked to sync; one that fails does so with an error's number."""

    def __init__(self, error: int | None = None) -> None:
        self.asked: list[tuple[str, int]] = []
        self._error = error

    def control(self, file_descriptor: int, command: int) -> None:
        self.asked.append(("control", command))
        if self._error is not None:
            raise OSError(self._error, "as ordered")

    def flush(self, file_descriptor: int) -> None:
        self.asked.append(("flush", file_descriptor))


def test_the_full_sync_is_used_where_a_plain_sync_stops_at_the_drive() -> None:
    machine = Machine()
    choose_sync(FULL_SYNC, machine.control, machine.flush)(7)
    assert machine.asked == [("control", FULL_SYNC)]


def test_elsewhere_a_file_is_synced_as_it_always_was() -> None:
    machine = Machine()
    choose_sync(None, machine.control, machine.flush)(7)
    assert machine.asked == [("flush", 7)]


@pytest.mark.parametrize("error", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_the_command_is_synced(error: int) -> None:
    machine = Machine(error)
    choose_sync(FULL_SYNC, machine.control, machine.flush)(7)
    assert machine.asked == [("control", FULL_SYNC), ("flush", 7)]


def test_a_failed_full_sync_is_not_replaced_by_a_plain_one() -> None:
    machine = Machine(errno.EIO)
    with pytest.raises(OSError, match="as ordered"):
        choose_sync(FULL_SYNC, machine.control, machine.flush)(7)
    assert machine.asked == [("control", FULL_SYNC)]


def test_a_file_that_was_removed_is_not_on_the_disk(tmp_path: Path) -> None:
    file = OsFileSystem().open(tmp_path / "log", create=True)
    file.sync()
    (tmp_path / "log").unlink()
    with pytest.raises(FileNotFoundError, match="removed while it was in use"):
        file.sync()


STATX = getattr(ctypes.CDLL(None), "statx", None)
REFUSING: list[tuple[int, bytes, int, int]] = []


def refuse(file_descriptor: int, path: bytes, flags: int, mask: int, answer: object) -> int:
    """Answer as a sandbox does that knows nothing of statx."""
    REFUSING.append((file_descriptor, path, flags, mask))
    return -1


@pytest.mark.parametrize(
    "statx",
    [pytest.param(STATX, id="own"), pytest.param(refuse, id="refused"), pytest.param(None, id="none")],
)
def test_names_of_an_open_file_are_counted(statx: object, tmp_path: Path) -> None:
    count_links = choose_count_links(statx)  # type: ignore[arg-type]  # of ctypes
    file = OsFileSystem().open(tmp_path / "0", create=True)
    assert count_links(file.file_descriptor) == 1
    for number in range(1, 300):
        (tmp_path / str(number)).hardlink_to(tmp_path / "0")
    assert count_links(file.file_descriptor) == 300
    for number in range(300):
        (tmp_path / str(number)).unlink()
    assert count_links(file.file_descriptor) == 0


def test_file_times_are_not_read_after_a_sync() -> None:
    """Linux would have to write the time with each sync that follows."""
    REFUSING.clear()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        choose_count_links(refuse)(-1)
    assert REFUSING == [(-1, b"", 0x1000, 0x4)]


def test_the_storage_package_can_be_imported_without_linux_functions() -> None:
    """As on macOS: without what only Linux has."""
    script = (
        "import os, fcntl\n"
        "for name in ('fdatasync', 'posix_fadvise', 'memfd_create', 'sendfile', 'preadv2'):\n"
        "    hasattr(os, name) and delattr(os, name)\n"
        "import select; hasattr(select, 'epoll') and delattr(select, 'epoll')\n"
        "fcntl.F_FULLFSYNC = 51\n"
        "import pkgutil, importlib, kohort.storage as room\n"
        "for each in pkgutil.iter_modules(room.__path__):\n"
        "    each.name.startswith('test_') or importlib.import_module('kohort.storage.' + each.name)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_parts_are_written_where_the_system_has_no_pwritev(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pwritev", raising=False)
    monkeypatch.setattr(filesystem, "HAS_PWRITEV", False)
    file = OsFileSystem().open(tmp_path / "file", create=True)
    parts = [b"%d " % number for number in range(3_000)]
    file.write_at(parts, 5)
    assert file.read_at(100_000, 0) == bytes(5) + b"".join(parts)
