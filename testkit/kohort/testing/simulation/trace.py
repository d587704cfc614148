"""What happened in a run, in order: pieces on the network, operations on disks, changes of etcd.

Two runs are the same if their fingerprints are. Where they are not, the first line that differs shows where
something has come into the run that is not of its seed.
"""

from collections.abc import Callable
from hashlib import blake2b
from zlib import crc32

FINGERPRINT_BYTES = 8


class Trace:
    """A hash over all events of a run."""

    def __init__(self) -> None:
        self.on_line: Callable[[str], object] | None = None
        """Called with each event as a line of text, if anybody wants to read them."""
        self._hash = blake2b(digest_size=FINGERPRINT_BYTES)

    def note(self, time_ns: int, event: str, data: bytes = b"") -> None:
        """Add an event, and the bytes that it carries."""
        line = f"{time_ns} {event} {len(data)}\n"
        self._hash.update(line.encode() + data)
        if self.on_line is not None:
            self.on_line(f"{line[:-1]} {crc32(data):08x}\n")

    def fingerprint(self) -> str:
        """Return the hash of all events so far."""
        return self._hash.hexdigest()
