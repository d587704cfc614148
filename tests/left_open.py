"""What a test leaves open is let go when it ends, and a worker's descriptors stay few."""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

DESCRIPTORS = Path("/proc/self/fd")
DESCRIPTORS_MAX = 500
"""What a worker may hold between two tests: brokers of a session or a module among them."""


class Opened(Protocol):
    """Holds files or threads."""

    def let_go(self) -> None:
        """Close them, whatever state it is in; it may have been closed before."""


_opened: WeakSet[Opened] = WeakSet()


def goes_with_the_test(thing: Opened) -> None:
    """Have it let go when the test ends that is under way."""
    _opened.add(thing)


def let_go() -> None:
    """Let go what the test has opened that has ended."""
    while _opened:
        _opened.pop().let_go()


def too_many_descriptors(most: int = DESCRIPTORS_MAX) -> str | None:
    """Return what this process holds open if that is more than `most`, garbage aside; else None."""
    if not DESCRIPTORS.exists() or count() <= most:
        return None
    gc.collect()  # Files in cycles are open until then: that is late, and no leak.
    found = count()
    if found <= most:
        return None
    kinds = Counter(kind(name) for name in os.listdir(DESCRIPTORS))
    told = ", ".join(f"{number} {name}" for name, number in kinds.most_common(5))
    return f"{found} descriptors are open, {most} may be: {told}"


def count() -> int:
    """Return how many descriptors this process has open."""
    return len(os.listdir(DESCRIPTORS))


def kind(descriptor: str) -> str:
    """Return what a descriptor leads to, without its number; of a file the folder."""
    try:
        target = os.readlink(DESCRIPTORS / descriptor)
    except OSError:
        return "closed meanwhile"
    return os.path.dirname(target) if target.startswith("/") else target.partition(":[")[0]
