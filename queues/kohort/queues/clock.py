"""The wall clock: timestamps of records, and times that other processes wrote, are compared with it."""

import time


def wall_ms() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000
