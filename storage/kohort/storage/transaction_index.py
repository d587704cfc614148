"""What Apache Kafka noted of aborted transactions, in a log that it wrote: readers of committed data ask.

`.txnindex` of a segment: version int16 (0), producer id, first offset, last offset, last stable offset int64.
kohort has no transactions of its own, so that no entry is ever added. A transaction that was open when
Kafka wrote last will never end: it counts as aborted.
Source: KIP-98; org.apache.kafka.storage.internals.log.TransactionIndex, AbortedTxn.
"""

import struct
from collections.abc import Iterator, Sequence

from kohort.storage.compaction import AbortedTransaction
from kohort.storage.filesystem import FileSystem
from kohort.storage.producers import ProducerStateTable
from kohort.storage.scan import iterate_headers
from kohort.storage.segment import Segment

TRANSACTION_INDEX_SUFFIX = ".txnindex"

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
_NONE = -1
NEVER = 2**63 - 1
"""Where a transaction ends that has no marker, and will have none."""


def find_aborted_transactions(
    file_system: FileSystem,
    directory: str,
    names: Sequence[str],
    producers: ProducerStateTable,
    log_end_offset: int,
) -> tuple[AbortedTransaction, ...]:
    """Return those of a log, by their first offsets. Raises: OSError."""
    found = [
        AbortedTransaction(producer_id, state.transaction_first_offset, NEVER)
        for producer_id, state in producers.items()
        if state.transaction_first_offset != _NONE
    ]
    for name in names:
        if name.endswith(TRANSACTION_INDEX_SUFFIX):
            content = file_system.read(f"{directory}/{name}") or b""
            found += [each for each in decode_transaction_index(content) if each.last_offset < log_end_offset]
    return tuple(sorted(found, key=lambda each: each.first_offset))


def decode_transaction_index(content: bytes) -> Iterator[AbortedTransaction]:
    """Yield the whole entries that make sense."""
    for start in range(0, len(content) - _ENTRY.size + 1, _ENTRY.size):
        version, producer_id, first, last, _ = _ENTRY.unpack_from(content, start)
        if version == _VERSION and 0 <= first < last:
            yield AbortedTransaction(producer_id, first, last)


def aborted_between(
    aborted: Sequence[AbortedTransaction],
    segments: Sequence[Segment],
    log_end_offset: int,
    start_offset: int,
) -> list[AbortedTransaction]:
    """Return those that a reader may meet from `start_offset` to the end of the segment that holds it.

    One whose marker compaction has removed is left out: none of its records is left, and a reader would
    wait for the marker. Raises: OSError, StorageError.
    """
    bounds = [segment.base_offset for segment in segments if segment.base_offset > start_offset]
    end_offset = bounds[0] if bounds else log_end_offset
    return [
        each
        for each in aborted
        if each.first_offset < end_offset
        and each.last_offset >= start_offset
        and _is_as_noted(each, segments)
    ]


def _is_as_noted(each: AbortedTransaction, segments: Sequence[Segment]) -> bool:
    """Whether its marker is there, or none is to be expected."""
    if each.last_offset == NEVER:
        return True
    holding = [segment for segment in segments if segment.base_offset <= each.last_offset]
    if not holding:
        return False
    segment = holding[-1]
    position = segment.position_of(each.last_offset, segment.size_bytes)
    header = next((header for _, header in iterate_headers(segment.file, position, segment.size_bytes)), None)
    return header is not None and header.is_control and header.producer_id == each.producer_id
