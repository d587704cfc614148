"""Walking through a log file: header by header, or batch by batch."""

from collections.abc import Iterator

from kohort.protocol.errors import WireError
from kohort.protocol.records import HEADER_BYTES, BatchHeader, read_header
from kohort.storage.errors import StorageError
from kohort.storage.filesystem import File

MAX_RELATIVE_OFFSET = 2**31 - 1  # An index holds offsets in 32 bits, counted from the segment's first.
_HEADER_CHUNK_BYTES = 16 * 1024
_BATCH_CHUNK_BYTES = 1024 * 1024


def iterate_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch from `position` to `end`, both bounds of batches.

    Raises: StorageError where there is no header, OSError.
    """
    chunk, chunk_start = b"", position
    while position < end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk, chunk_start = file.read_at(min(_HEADER_CHUNK_BYTES, end - position), position), position
        try:
            header = read_header(chunk, position - chunk_start)
        except WireError as error:
            raise StorageError(f"no batch at position {position} of a log: {error}") from error
        yield position, header
        position += header.size_bytes


def iterate_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield position, header and bytes of each whole batch, up to the first invalid one. Raises: OSError."""
    chunk, chunk_start = memoryview(b""), position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk, chunk_start = _read(file, _BATCH_CHUNK_BYTES, position, end), position
        try:
            header = read_header(chunk, position - chunk_start)
        except WireError:
            return
        size = header.size_bytes
        if position + size > end:
            return
        if position + size > chunk_start + len(chunk):
            chunk, chunk_start = _read(file, max(size, _BATCH_CHUNK_BYTES), position, end), position
            if len(chunk) < size:
                return
        start = position - chunk_start
        yield position, header, chunk[start : start + size]
        position += size


def _read(file: File, size: int, position: int, end: int) -> memoryview:
    return memoryview(file.read_at(min(size, end - position), position))
