"""Bounds how often the cluster is asked, and how much is kept."""

import time
from threading import Event

import msgspec

FIRST_LOOK_CALLS = 20
"""So many calls of a start do not wait: the first look, in a cluster of a few brokers."""


class Limits(msgspec.Struct, frozen=True):
    """How often the cluster is looked at and asked, and how much of the history is kept."""

    interval_seconds: float = 10.0
    calls_per_second: float = 2.0
    retention_days: float = 30.0
    retention_bytes: int = 1 << 30


class Stopped(Exception):
    """The observer stops: nobody is asked any more."""


class Pace:
    """Lets requests begin only so often, apart from the first ones. Once the observer stops, none begin."""

    def __init__(self, calls_per_second: float, stopping: Event, unhindered: int = 0) -> None:
        """Make a pace. The first `unhindered` requests begin at once."""
        self._gap_seconds = 1 / calls_per_second
        self._stopping = stopping
        self._next = 0.0
        self._unhindered = unhindered
        self.calls = 0

    def wait(self, requests: int = 1) -> None:
        """Return when a call with this number of requests may begin. Raises: Stopped."""
        now = time.monotonic()
        if self._stopping.wait(max(self._next - now, 0.0)):
            raise Stopped
        self._next = max(now, self._next) + max(requests - self._unhindered, 0) * self._gap_seconds
        self._unhindered = max(self._unhindered - requests, 0)
        self.calls += requests
