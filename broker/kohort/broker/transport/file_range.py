"""Records that are sent from their file, uncopied, and how the loop is kept from waiting for a disk.

`sendfile` reads what the page cache does not hold, and whoever calls it waits. So the loop asks first
(`preadv2` with RWF_NOWAIT, a microsecond) whether the next stretch is in memory; a cold one is read by a
worker thread, and sent once it is warm. Where the system cannot tell, it is sent as if it were warm.
"""

import errno
import os

STRETCH_BYTES = 1024 * 1024  # What one sendfile sends at most, and one worker reads.
PROBE_BYTES = 256 * 1024  # One probe for each; the kernel reads ahead in steps of half of it.

_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_CANNOT_TELL = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class FileRange:
    """A range of an open file that is to be sent as it is: a piece of an answer."""

    __slots__ = ("file_descriptor", "keep", "position", "size_bytes", "warm_until")

    def __init__(self, file_descriptor: int, position: int, size_bytes: int, keep: object) -> None:
        self.file_descriptor = file_descriptor
        self.position = position
        self.size_bytes = size_bytes
        self.keep = keep  # Whatever holds the descriptor open until the range has been sent.
        self.warm_until = position  # Up to where it was found, or brought, in memory.

    def __len__(self) -> int:
        return self.size_bytes

    @property
    def stretch_bytes(self) -> int:
        """How many bytes are to be sent next, at most."""
        return min(self.size_bytes, STRETCH_BYTES)

    def is_warm(self) -> bool:
        """Return whether the next stretch can be sent without waiting for the disk, as far as can be told."""
        end = self.position + self.stretch_bytes
        if end <= self.warm_until or _NOWAIT is None:
            return True
        if not _is_cached(self.file_descriptor, self.position, end, _NOWAIT):
            return False
        self.warm_until = end
        return True

    def warm(self) -> None:
        """Read the next stretch into the page cache. Blocks; a worker's work. Raises: OSError."""
        end = self.position + self.stretch_bytes
        position = self.position
        scratch = bytearray(PROBE_BYTES)
        while position < end:
            count = os.preadv(self.file_descriptor, [memoryview(scratch)[: end - position]], position)
            if not count:
                break  # The file is shorter than it should be: whoever sends it will say so.
            position += count
        self.warm_until = end


def _is_cached(file_descriptor: int, position: int, end: int, flags: int) -> bool:
    """Return whether the first byte of each probe and the last byte of all are in the page cache."""
    byte = bytearray(1)
    try:
        for place in (*range(position, end - 1, PROBE_BYTES), end - 1):
            os.preadv(file_descriptor, [byte], place, flags)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _CANNOT_TELL:
            raise
    return True
