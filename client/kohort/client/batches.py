"""Which batches of a fetched record set a reader sees: no markers, and no transactions that were aborted."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kohort.client.values import TopicPartition
from kohort.protocol.checksum import crc32c
from kohort.protocol.errors import WireError
from kohort.protocol.messages.fetch import AbortedTransaction
from kohort.protocol.records import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    ControlType,
    decompress,
    iterate_records,
    read_control_type,
    read_header,
)
from kohort.protocol.records.header import COMPRESSION_MASK, CRC_COVERS_FROM

Aborted = Sequence[AbortedTransaction]


class FetchedBatch(NamedTuple):
    """A batch of a partition as a consumer gets it: its header, and its records, plain and encoded.

    Records before `from_offset`, which the batch may begin with, were not asked for.
    """

    partition: TopicPartition
    header: BatchHeader
    records: bytes
    from_offset: int


def visible_batches(
    records: Buffer, *, check_crcs: bool, aborted: Aborted | None
) -> Iterator[tuple[BatchHeader, memoryview | None]]:
    """Yield each whole batch's header with its records, or None if they are not for the user.

    A truncated batch at the end, as fetches have it, is left out. `aborted` are the aborted transactions in
    the answer to a read_committed fetch; None reads uncommitted. Raises: WireError for a batch that is not
    version 2, and with `check_crcs` for a damaged one.
    Source: org.apache.kafka.clients.consumer.internals.CompletedFetch.
    """
    view = memoryview(records)
    transactions = None if aborted is None else _AbortedTransactions(aborted)
    position, end = 0, len(view)
    while position + HEADER_BYTES <= end:
        header = read_header(view, position)
        stop = position + header.size_bytes
        if stop > end:
            break
        if header.record_count < 0:
            raise WireError(f"the batch at offset {header.base_offset} has {header.record_count} records")
        # Without a call of `batch_crc`, which needs a second view of the batch.
        if check_crcs and crc32c(view[position + CRC_COVERS_FROM : stop]) != header.crc:
            raise WireError(f"the batch at offset {header.base_offset} does not have the CRC that it says")
        is_hidden = transactions is not None and transactions.hide(header, view[position:stop])
        is_hidden = is_hidden or header.is_control or not header.record_count
        yield header, None if is_hidden else view[position + HEADER_BYTES : stop]
        position = stop


def hidden_batches(records: memoryview, positions: Iterable[int], aborted: Aborted) -> Iterator[bool]:
    """Yield of each batch at these positions, in their order, whether it was aborted. Raises: WireError."""
    transactions = _AbortedTransactions(aborted)
    for position in positions:
        header = read_header(records, position)
        yield transactions.hide(header, records[position : position + header.size_bytes])


def plain_records(header: BatchHeader, payload: memoryview) -> bytes:
    """Return a batch's records, concatenated and decompressed. Raises: WireError."""
    if not header.attributes & COMPRESSION_MASK:
        return bytes(payload)
    return decompress(header.compression, payload)


class _AbortedTransactions:
    """The producers whose transaction is open at the reader's position and will be aborted."""

    def __init__(self, aborted: Aborted) -> None:
        self._coming = [(each.first_offset, each.producer_id) for each in aborted]
        heapq.heapify(self._coming)
        self._producer_ids: set[int] = set()

    def hide(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether the batch, which follows the one before, was aborted."""
        producer_id = header.producer_id
        if producer_id < 0:
            return False
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._producer_ids.add(heapq.heappop(self._coming)[1])
        if producer_id not in self._producer_ids:
            return False
        if header.is_control and _is_abort(batch):
            self._producer_ids.discard(producer_id)
        return header.is_transactional


def _is_abort(batch: memoryview) -> bool:
    marker = next(iterate_records(batch), None)  # A compacted log keeps the batch without its marker.
    return marker is not None and read_control_type(marker.key) is ControlType.ABORT
