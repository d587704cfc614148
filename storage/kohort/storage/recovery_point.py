"""How far the newest segment of a log is known to be on the disk, with its indexes, epochs and producers.

Without it a start after a crash reads the whole segment: nothing else tells which part was synced. Kafka
keeps such an offset for a log too, but without the position of its batch or the state of the indexes. The
file is for the newest segment only. It is removed before anything before its offset is.
"""

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.protocol.records import NO_TIMESTAMP

RECOVERY_POINT = "recovery-point-checkpoint"
_VERSION = "0"


class RecoveryPoint(msgspec.Struct, frozen=True):
    """Of the segment at `base_offset`, `size_bytes` bytes, all batches below `offset`, are on the disk."""

    base_offset: int
    offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    max_timestamp: int = NO_TIMESTAMP
    max_timestamp_offset: int = 0

    def encode(self) -> bytes:
        """Return the file's content: a version, the numbers in their order, and a checksum of both."""
        body = f"{_VERSION}\n{' '.join(map(str, msgspec.structs.astuple(self)))}\n"
        return f"{body}{crc32c(body.encode()):08x}\n".encode()

    @classmethod
    def decode(cls, content: bytes | None) -> "RecoveryPoint | None":
        """Return the content of a file, None if it is missing, damaged or of another version."""
        lines = (content or b"").split(b"\n")
        if len(lines) != 4 or lines[0] != _VERSION.encode():
            return None
        body = b"\n".join(lines[:2]) + b"\n"
        if lines[2] != b"%08x" % crc32c(body):
            return None
        return cls(*map(int, lines[1].split()))
