"""Only the owner of a data folder may read it.

Records, keys of passwords and secrets are there. New folders are made as 0700 and new files as 0600. A folder
of an earlier version, or one that an administrator made, loses its other permissions when it is opened.
"""

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
OTHERS = 0o077
"""What group and others may do."""

_OURS = "meta.properties"
_NOTHING = frozenset(("lost+found",))  # Of a disk's own file system.


class Privacy(NamedTuple):
    """The result of removing other users' permissions on a folder."""

    closed: int = 0
    """How many folders and files others could use before, and cannot now."""
    reason: str = ""
    """Why others can still use some; empty where they cannot."""
    can_list: bool = False
    """Whether others can only see the names in the folder."""


def close_to_others(path: str) -> Privacy:
    """Remove all permissions of group and others on the folder and its content.

    A folder that only its owner can enter needs no change. If the folder itself cannot be changed, such as
    a mounted one, its direct content is changed. Raises: OSError if it cannot be read.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return Privacy()
    if not status.st_mode & OTHERS:
        return Privacy()
    if reason := _not_ours(path, status):
        return Privacy(reason=reason)
    if _close(path, status):
        return Privacy(closed=1 + sum(_close(each, found) for each, found in _inside(path)))
    closed = 0
    for entry in os.scandir(path):
        found = _status(entry)
        if found is None or not found.st_mode & OTHERS:
            continue
        if not _close(entry.path, found):
            return Privacy(closed, f"{entry.path} cannot be changed")
        closed += 1
    return Privacy(closed, can_list=True)


def _not_ours(path: str, status: os.stat_result) -> str:
    """Return why a folder is not to be changed: others may need it. Empty where it is a data folder."""
    if status.st_mode & stat.S_ISVTX:
        return "it is a folder that all users share"
    names = set(os.listdir(path)) - _NOTHING
    return "" if not names or _OURS in names else "it has files that are not of kohort"


def _close(path: str, status: os.stat_result) -> bool:
    """Return whether group and others have no permissions on it now."""
    if not status.st_mode & OTHERS:
        return False
    try:
        os.chmod(path, stat.S_IMODE(status.st_mode) & ~OTHERS)
        return not os.stat(path).st_mode & OTHERS  # Some file systems have one mode for all.
    except OSError:
        return False


def _inside(path: str) -> Iterator[tuple[str, os.stat_result]]:
    for entry in os.scandir(path):
        status = _status(entry)
        if status is None:
            continue
        yield entry.path, status
        if stat.S_ISDIR(status.st_mode):
            yield from _inside(entry.path)


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of a folder or file; None for links and others, and if it was deleted meanwhile."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    return status if stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode) else None
