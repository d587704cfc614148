"""Run a broker in a process that lacks what Windows lacks: `windows.py COMMAND...` is `kohort COMMAND...`.

The calls are gone from their modules, `fcntl` and `resource` cannot be imported, no folder opens as a file.
An open file, or a folder with open files, cannot be renamed or removed.
"""

import ctypes
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio  # noqa: F401  # Imported while all calls are there.
import trio  # noqa: F401  # As above.

GONE: dict[Any, str] = {
    os: "chown chroot fchmod fchown fdatasync fork forkpty getegid geteuid getgid getgroups"
    " getpgid getpgrp getsid getuid initgroups killpg lchown memfd_create mkfifo mknod nice"
    " openpty posix_fadvise posix_fallocate pread preadv pwrite pwritev readv"
    " sched_getaffinity sched_setaffinity sched_yield sendfile setegid seteuid setgid setsid"
    " setuid splice statvfs fstatvfs sync uname wait waitid writev O_CLOEXEC O_DIRECT"
    " O_DIRECTORY O_DSYNC O_NOFOLLOW O_NONBLOCK O_SYNC RWF_NOWAIT RWF_DSYNC"
    " POSIX_FADV_DONTNEED",
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGUSR1"
    " SIGUSR2 SIGVTALRM SIGWINCH alarm getitimer pause pthread_kill pthread_sigmask setitimer"
    " siginterrupt sigpending sigtimedwait sigwait sigwaitinfo ITIMER_PROF ITIMER_REAL"
    " ITIMER_VIRTUAL",
    socket: "AF_UNIX SO_REUSEPORT SO_PEERCRED SCM_RIGHTS CMSG_LEN CMSG_SPACE MSG_DONTWAIT"
    " MSG_NOSIGNAL sethostname",
    select: "kqueue poll POLLIN POLLOUT",
    time: "pthread_getcpuclockid clock_settime",
}
"""The calls that Windows lacks. `select.epoll` stays: trio needs it on Linux."""


def take_away() -> None:
    """Remove the calls that Windows lacks from this process."""
    # Windows has pairs of sockets, made in another way.
    socket.socketpair = partial(socket.socketpair, socket.AF_UNIX)
    # mypy knows these names with Linux's types. Their replacements have other types on purpose.
    shutil.disk_usage = partial(_disk_usage, os.statvfs)  # type: ignore[assignment]
    for module, names in GONE.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty"):
        sys.modules[name] = None  # type: ignore[assignment]
    ctypes.CDLL = _no_library  # type: ignore[assignment,misc]
    os.open = _without_folders(os.open)
    for name in ("rename", "replace", "unlink", "remove", "rmdir"):
        setattr(os, name, _without_open_files(getattr(os, name)))


def _disk_usage(statvfs: Callable[[Any], os.statvfs_result], path: Any) -> SimpleNamespace:
    found = statvfs(path)
    total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return SimpleNamespace(total=total, used=total - free, free=free)


def _no_library(name: object, *_: object) -> object:
    raise TypeError(f"bad argument type for built-in operation: {name}")


def _without_folders(call: Callable[..., int]) -> Callable[..., int]:
    def opened(path: Any, *arguments: Any, **more: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", path)
        return call(path, *arguments, **more)

    return opened


def _without_open_files(call: Callable[..., None]) -> Callable[..., None]:
    def named(path: Any, *arguments: Any, **more: Any) -> None:
        if more.get("dir_fd") is None:
            place = os.path.realpath(path)
            for target in (place, *(os.path.realpath(each) for each in arguments)):
                if any(each == target or each.startswith(f"{target}{os.sep}") for each in _open_files()):
                    raise PermissionError(13, "The process cannot access the file: it is being used", path)
        call(path, *arguments, **more)

    return named


def _open_files() -> list[str]:
    found = []
    for each in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{each}"))
        except FileNotFoundError:
            continue  # The listing's own.
    return found


if __name__ == "__main__":
    # trio, anyio and Python's own library were imported with all calls there; kohort is without.
    assert {"anyio", "trio"} <= set(sys.modules)
    take_away()
    os.environ["KOHORT_POLLER"] = "select"  # trio itself polls with what there was.
    from kohort.cli.main import main

    sys.exit(main())
