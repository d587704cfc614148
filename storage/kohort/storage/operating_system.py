"""The calls of an operating system that not every one has, and what takes their place.

Linux has all of them, macOS most, Windows few. Which of those for files there are is asked here alone.
"""

import ctypes
import errno
import os
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

Buffer = bytes | bytearray | memoryview

O_BINARY: int = getattr(os, "O_BINARY", 0)
"""Windows changes line ends in files without it. Descriptors are closed in child processes on all systems."""
RWF_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
HAS_SENDFILE = hasattr(os, "sendfile")
HAS_PWRITEV = hasattr(os, "pwritev")  # Not on macOS before 11.
SYNCS_DIRECTORIES = hasattr(os, "O_DIRECTORY")
"""Windows opens no folder as a file. Its file systems write names into a journal."""
_LOCK_BYTES = 1

_position_lock = threading.Lock()


def read_at(file_descriptor: int, size: int, position: int) -> bytes:
    """Return up to `size` bytes from `position` on, where there is no `os.pread`. Raises: OSError."""
    with _position_lock:  # Each descriptor has one position, for all threads.
        os.lseek(file_descriptor, position, os.SEEK_SET)
        return os.read(file_descriptor, size)


def write_at(file_descriptor: int, data: Buffer, position: int) -> int:
    """Write at `position`, where there is no `os.pwrite`; return how many bytes. Raises: OSError."""
    with _position_lock:
        os.lseek(file_descriptor, position, os.SEEK_SET)
        return os.write(file_descriptor, data)


pread: Callable[[int, int, int], bytes] = getattr(os, "pread", read_at)
pwrite: Callable[[int, Buffer, int], int] = getattr(os, "pwrite", write_at)


def read_over(file_descriptor: int, scratch: memoryview, position: int) -> int:
    """Read from `position` on into the page cache; return how many bytes of `scratch` that took."""
    if hasattr(os, "preadv"):
        return os.preadv(file_descriptor, [scratch], position)
    return len(pread(file_descriptor, len(scratch), position))


def drop_cache(file_descriptor: int) -> None:
    """Let later reads come from the disk, where the system has a call for that."""
    if hasattr(os, "posix_fadvise"):  # Not on macOS.
        os.posix_fadvise(file_descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def c_function(name: str) -> Any | None:
    """Return a function of the C library, None where it has none of that name."""
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # Windows knows no library without a name.
        return None


def _module(name: str) -> Any | None:
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl = _module("fcntl")
_msvcrt = None if _fcntl is not None else _module("msvcrt")


def lock_file(file_descriptor: int) -> bool:
    """Lock a file until it is closed; return False when another process has it. Raises: OSError."""
    try:
        if _fcntl is not None:
            _fcntl.flock(file_descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        elif _msvcrt is not None:
            os.lseek(file_descriptor, 0, os.SEEK_SET)
            _msvcrt.locking(file_descriptor, _msvcrt.LK_NBLCK, _LOCK_BYTES)
    except (BlockingIOError, PermissionError):
        return False
    return True


def choose_sync(
    full_sync: int | None, control: Callable[[int, int], object], flush: Callable[[int], None]
) -> Callable[[int], None]:
    """Return the function that syncs a file to the disk itself.

    On macOS a sync ends at the drive, which may lose its cache at a power failure; `full_sync` is the command
    that also flushes the drive. File systems that do not support it, such as network ones, use a plain sync.
    """
    if full_sync is None:
        return flush

    def sync(file_descriptor: int) -> None:
        try:
            control(file_descriptor, full_sync)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY):
                raise
            flush(file_descriptor)

    return sync


sync_data = choose_sync(
    getattr(_fcntl, "F_FULLFSYNC", None),
    getattr(_fcntl, "fcntl", lambda *_: None),
    getattr(os, "fdatasync", os.fsync),
)  # macOS has no fdatasync either.
