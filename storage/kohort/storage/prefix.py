"""The longest valid prefix of a log file, found in one pass, and all that a log derives from its batches.

A start after a crash reads up to a whole segment of each partition, which may be millions of batches: the
scan creates no objects for them, and keeps only what is needed at the end.
Source: org.apache.kafka.storage.internals.log.LogSegment.recover.
"""

from collections import deque

import msgspec

from kohort.protocol.checksum import crc32c
from kohort.protocol.records import HEADER_BYTES, NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader
from kohort.protocol.records.header import (
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from kohort.storage.filesystem import File
from kohort.storage.producers import BATCHES_KEPT
from kohort.storage.scan import MAX_RELATIVE_OFFSET

_CHUNK_BYTES = 4 * 1024 * 1024
_LENGTH_LEAST = HEADER_BYTES - LOG_OVERHEAD_BYTES
_OF_TRANSACTIONS = TRANSACTIONAL_FLAG | CONTROL_FLAG
_KEY_POSITION = HEADER_BYTES + 5  # Of a marker: its record's lengths and deltas take a byte each.
_COMMIT_KEY = b"\x00\x00\x00\x01"

Fields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of a header, in order: a `BatchHeader` costs as much again."""


class IndexEntry(msgspec.Struct, frozen=True, gc=False):
    """The index entry of a batch: its last offset, its position, and the newest time up to it."""

    last_offset: int
    position: int
    max_timestamp: int
    max_timestamp_offset: int


class Prefix(msgspec.Struct):
    """The content of the first `size_bytes` of a file: consecutive whole batches with right CRCs."""

    next_offset: int
    max_timestamp_offset: int
    max_timestamp: int = NO_TIMESTAMP
    first_timestamp: int = NO_TIMESTAMP
    size_bytes: int = 0
    unindexed_bytes: int = 0
    index: list[IndexEntry] = []
    epochs: list[tuple[int, int]] = []
    """Leader epochs and the offsets from which they are others than before."""
    producers: dict[int, deque[Fields]] = {}
    """The last few of each producer, markers among them."""
    open_transactions: dict[int, Fields] = {}
    """The first batch of each."""
    aborted: list[Fields] = []
    """The first batch, and the marker, of each transaction that may have been aborted."""
    endings: dict[int, Fields] = {}
    """Each producer's first marker: the transaction that it ends may have started in an earlier file."""

    def produced(self) -> list[BatchHeader]:
        """The batches of producers that show their last sequences and their transactions, in order.

        The last few are enough: no more is remembered. The first batch of a transaction is needed too, while
        it is open, and always for an aborted one; and so is a marker that may end a transaction of earlier
        files.
        """
        kept = [fields for each in self.producers.values() for fields in each]
        kept += self.aborted
        kept += self.open_transactions.values()
        kept += self.endings.values()
        headers = {fields[0]: BatchHeader(*fields) for fields in kept}
        return [headers[offset] for offset in sorted(headers)]


def scan_prefix(
    file: File, base_offset: int, index_interval_bytes: int = 4096, known: Prefix | None = None
) -> Prefix:
    """Return the longest valid prefix of a segment's file. Raises: OSError.

    With `known` the scan continues from there: earlier parts are neither read nor returned.
    A batch is valid if it is complete, has its CRC, and follows the batch before it. Gaps are valid:
    compaction leaves them, unless they are wider than an index can express: the offset has no checksum.
    """
    end = file.size()
    found = Prefix(base_offset, base_offset) if known is None else known
    offset_limit = base_offset + MAX_RELATIVE_OFFSET
    size_wanted = _CHUNK_BYTES
    while found.size_bytes < end:
        position = found.size_bytes
        chunk = file.read_at(min(size_wanted, end - position), position)
        _scan_chunk(chunk, found, offset_limit, index_interval_bytes)
        if not position and found.size_bytes:
            found.first_timestamp = BatchHeader(*HEADER.unpack_from(chunk)).max_timestamp
        size_wanted = _CHUNK_BYTES
        if found.size_bytes == position:  # It is damaged there, or that batch is larger than the chunk.
            size_wanted = _batch_bytes(chunk)
            if not len(chunk) < size_wanted <= end - position:
                break
    return found


def _batch_bytes(chunk: bytes) -> int:
    """Return the size that the header at the start of a chunk gives."""
    return LOG_OVERHEAD_BYTES + int.from_bytes(chunk[8:LOG_OVERHEAD_BYTES], "big", signed=True)


def _scan_chunk(chunk: bytes, found: Prefix, offset_limit: int, index_interval_bytes: int) -> None:
    """Extend `found` into the chunk that starts at its end, as far as the batches are valid."""
    unpack, checksum, view = HEADER.unpack_from, crc32c, memoryview(chunk)
    place, size, start = 0, len(chunk), found.size_bytes
    expected, unindexed = found.next_offset, found.unindexed_bytes
    newest, newest_offset = found.max_timestamp, found.max_timestamp_offset
    epoch_before = found.epochs[-1][0] if found.epochs else None
    while place + HEADER_BYTES <= size:
        fields: Fields = unpack(chunk, place)
        base, length, epoch, magic, crc, attributes, delta, _, timestamp, producer_id, _, _, count = fields
        stop = place + LOG_OVERHEAD_BYTES + length
        if magic != MAGIC or length < _LENGTH_LEAST or stop > size:
            break
        last = base + delta
        if base < expected or delta < 0 or last > offset_limit:
            break
        if checksum(view[place + CRC_COVERS_FROM : stop]) != crc:
            break
        if timestamp > newest and count:
            newest, newest_offset = timestamp, last
        if unindexed > index_interval_bytes:
            found.index.append(IndexEntry(last, start + place, newest, newest_offset))
            unindexed = 0
        unindexed += stop - place
        if epoch != epoch_before:
            found.epochs.append((epoch, base))
            epoch_before = epoch
        if producer_id > NO_PRODUCER_ID:
            _note_producer(found, producer_id, attributes, fields)
            if attributes & _OF_TRANSACTIONS:
                key = chunk[place + _KEY_POSITION : place + _KEY_POSITION + len(_COMMIT_KEY)]
                is_commit = not count or key == _COMMIT_KEY
                _note_transaction(found, producer_id, fields, attributes & CONTROL_FLAG, is_commit=is_commit)
        expected = last + 1
        place = stop
    found.size_bytes, found.next_offset, found.unindexed_bytes = start + place, expected, unindexed
    found.max_timestamp, found.max_timestamp_offset = newest, newest_offset


def _note_producer(found: Prefix, producer_id: int, attributes: int, fields: Fields) -> None:
    """Keep the batch, and drop those of its producer that are not needed.

    It keeps as many markers as batches.
    """
    batches = found.producers.get(producer_id)
    if batches is None:
        batches = found.producers[producer_id] = deque(maxlen=BATCHES_KEPT)
    if attributes & _OF_TRANSACTIONS and batches.maxlen == BATCHES_KEPT:
        batches = found.producers[producer_id] = deque(batches, maxlen=2 * BATCHES_KEPT)
    batches.append(fields)


def _note_transaction(
    found: Prefix, producer_id: int, fields: Fields, is_control: int, *, is_commit: bool
) -> None:
    """Keep where a transaction starts; after its commit that is not needed any more."""
    if not is_control:
        found.open_transactions.setdefault(producer_id, fields)
        return
    found.endings.setdefault(producer_id, fields)
    first = found.open_transactions.pop(producer_id, None)
    if first is not None and not is_commit:
        found.aborted += (first, fields)
