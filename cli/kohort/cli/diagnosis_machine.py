"""The machine under a broker: open files, and the disk of the data folder."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from kohort.cli.diagnosis import Finding, Level

DESCRIPTORS_MIN = 4_096
FREE_BYTES_MIN = 1_000_000_000


def look_at_machine(data: str) -> Iterator[Finding]:
    """Yield findings about the limit of descriptors, and the disk where the data folder is or would be."""
    yield from _descriptors()
    yield _folder(Path(data))


def _descriptors() -> Iterator[Finding]:
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < DESCRIPTORS_MIN:
        yield Finding(
            "descriptors here",
            Level.WARN,
            f"a process may open {soft:,} files and connections",
            f"A broker shares them between logs and clients: ulimit -n {min(hard, 65_536)}",
        )
    else:
        yield Finding("descriptors here", Level.OK, f"a process may open {soft:,} files and connections")


def _folder(folder: Path) -> Finding:
    subject = f"data folder {folder}"
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if not os.access(place, os.W_OK | os.X_OK):
        return Finding(subject, Level.WARN, f"{place} cannot be written to by this user")
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:,.1f} GB are free{'' if place == folder.absolute() else '; it is not there yet'}"
    if free < FREE_BYTES_MIN:
        return Finding(subject, Level.WARN, text, "A broker takes its partitions offline on a full disk.")
    return Finding(subject, Level.OK, text)
