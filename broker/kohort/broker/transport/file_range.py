"""Sends records from their file without a copy, and without blocking the loop for the disk.

`sendfile` blocks if the data is not in the page cache. So the loop first checks whether the next part is in
memory (`preadv2` with RWF_NOWAIT, a microsecond). If it is not, a worker thread reads it before it is sent.
If the system cannot tell, it is sent directly.
"""

import errno
import os

from kohort.storage.operating_system import RWF_NOWAIT, read_over

STRETCH_BYTES = 1024 * 1024  # The most that one sendfile sends and one worker call reads.
PROBE_BYTES = 256 * 1024  # One probe for each; the kernel reads ahead in steps of half of it.

_NOWAIT = RWF_NOWAIT
_CANNOT_TELL = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


class FileRange:
    """A range of an open file, as a piece of an answer."""

    __slots__ = ("file_descriptor", "keep", "position", "size_bytes", "warm_until")

    def __init__(self, file_descriptor: int, position: int, size_bytes: int, keep: object) -> None:
        self.file_descriptor = file_descriptor
        self.position = position
        self.size_bytes = size_bytes
        self.keep = keep  # keeps the descriptor open until the range is sent
        self.warm_until = position  # The data up to here is in memory.

    def __len__(self) -> int:
        return self.size_bytes

    @property
    def stretch_bytes(self) -> int:
        """The size of the next part."""
        return min(self.size_bytes, STRETCH_BYTES)

    def is_warm(self) -> bool:
        """Return whether the next part can probably be sent without waiting for the disk."""
        end = self.position + self.stretch_bytes
        if end <= self.warm_until or _NOWAIT is None:
            return True
        if not _is_cached(self.file_descriptor, self.position, end, _NOWAIT):
            return False
        self.warm_until = end
        return True

    def warm(self) -> None:
        """Read the next part into the page cache. Blocks, so workers call it. Raises: OSError."""
        end = self.position + self.stretch_bytes
        position = self.position
        scratch = bytearray(PROBE_BYTES)
        while position < end:
            count = read_over(self.file_descriptor, memoryview(scratch)[: end - position], position)
            if not count:
                break  # The file is too short: sending it raises the error.
            position += count
        self.warm_until = end


def _is_cached(file_descriptor: int, position: int, end: int, flags: int) -> bool:
    """Return whether the first byte of each probe and the last byte of all are in the page cache."""
    byte = bytearray(1)
    try:
        for probe in (*range(position, end - 1, PROBE_BYTES), end - 1):
            os.preadv(file_descriptor, [byte], probe, flags)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _CANNOT_TELL:
            raise
    return True
