"""Records read for a member of a share group: whole batches from the first that is available, and acquired.

A member gets at least one batch if there is one. With `share.acquire.mode` record_limit (KIP-1206) it gets
at most the requested number of records; otherwise the batch with the last of these as a whole. Records that
were released often are returned in small groups.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kohort.broker.coordination.led_share_partition import LedSharePartition
from kohort.broker.group.share.record import Batch
from kohort.protocol.records import BatchHeader, read_header
from kohort.storage import StorageError

READ_BYTES_MAX = 1024 * 1024
"""The maximum size of one read in a partition, except for a larger batch."""
STEP_BYTES = 16 * 1024
STEP_GROWS = 8
"""The size of the first read, and the factor for the next: acquiring one record needs no megabyte."""
HEADER_BYTES = 61
STRICT = 1

_Placed = tuple[int, int, BatchHeader]
"""The start and the end of a batch in the bytes read."""


class Taken(NamedTuple):
    """The records that a member got from one share partition."""

    records: bytes
    acquired: Sequence[Batch]
    record_count: int


def available_bytes(led: LedSharePartition) -> int:
    """Return about how many bytes there are to acquire, 0 for none. Raises: StorageError, OSError."""
    core, log = led.core, led.partition.log
    if core is None:
        return 0
    if core.start_offset < log.log_start_offset:
        core.log_starts_at(log.log_start_offset)
    offset = core.next_fetch_offset()
    if offset >= led.end_offset or (offset >= core.end_offset and not core.has_room):
        return 0
    return log.read(offset, READ_BYTES_MAX, led.end_offset, at_least_one_batch=True).size_bytes


def take(
    led: LedSharePartition, member_id: str, *, max_bytes: int, max_records: int, mode: int
) -> Taken | None:
    """Return the acquired records, None if there are none. Raises: StorageError, OSError."""
    core, log = led.core, led.partition.log
    assert core is not None
    start = offset = core.next_fetch_offset()
    left_bytes = min(max(max_bytes, 0), READ_BYTES_MAX)
    step_bytes = STEP_BYTES
    pieces: list[bytes] = []
    read_bytes = 0
    batches: list[_Placed] = []
    acquired: list[Batch] = []
    count = 0
    together = core.often_delivered(start)
    if together is not None:
        mode, max_records = STRICT, min(max_records, together)
    while count < max_records and offset < led.end_offset:
        step_bytes = min(step_bytes, max(left_bytes, 0))
        try:
            data = log.read(offset, step_bytes, led.end_offset, at_least_one_batch=not pieces).read()
        except (StorageError, OSError):
            if acquired:
                break  # The member gets these: the next fetch gets the error.
            raise
        before_bytes = read_bytes
        for begin, end, header in _whole_batches(data):
            if count >= max_records or header.base_offset >= led.end_offset:
                break
            limit = max_records - count if mode == STRICT else header.last_offset_delta + 1
            first = max(header.base_offset, start)
            got = led.acquire(member_id, first, header.last_offset, limit, often=together is not None)
            count += sum(each.last_offset + 1 - each.first_offset for each in got)
            acquired += got
            batches.append((before_bytes + begin, before_bytes + end, header))
            read_bytes, offset = before_bytes + end, header.next_offset
        pieces.append(data[: read_bytes - before_bytes])
        left_bytes -= read_bytes - before_bytes
        if step_bytes >= left_bytes and read_bytes == before_bytes:
            break  # Nothing is left, or the next batch is larger than the limit.
        step_bytes *= STEP_GROWS
    if led.wants_committed and acquired:
        acquired = _without_aborted(led, acquired, [header for _, _, header in batches])
    if not acquired:
        return None
    return Taken(_cut(b"".join(pieces), batches, acquired), acquired, count)


def _whole_batches(data: bytes) -> Iterator[_Placed]:
    """Yield the start and the end of each batch, and its header; a truncated one is left out."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        header = read_header(data, position)
        end = position + header.size_bytes
        if end > len(data):
            break
        yield position, end, header
        position = end


def _cut(data: bytes, batches: Sequence[_Placed], acquired: Sequence[Batch]) -> bytes:
    """Return the batches from the first to the last of which something was acquired."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    of_these = [
        (begin, end) for begin, end, each in batches if each.last_offset >= first and each.base_offset <= last
    ]
    begin, end = of_these[0][0], of_these[-1][1]
    return data if (begin, end) == (0, len(data)) else data[begin:end]


def _without_aborted(
    led: LedSharePartition, acquired: Sequence[Batch], headers: Sequence[BatchHeader]
) -> list[Batch]:
    """Return the rest without aborted records, which nobody may see. Raises: StorageError."""
    log = led.partition.log
    if not log.aborted_transactions:
        return list(acquired)
    gone: list[tuple[int, int]] = []
    for aborted in log.aborted_from(acquired[0].first_offset, acquired[-1].last_offset + 1):
        gone += [
            (each.base_offset, each.last_offset)
            for each in headers
            if each.producer_id == aborted.producer_id
            and each.is_transactional
            and not each.is_control
            and aborted.first_offset <= each.base_offset <= aborted.last_offset
        ]
    left = list(acquired)
    for first, last in sorted(gone):
        led.archive(first, last)
        left = [part for batch in left for part in _minus(batch, first, last)]
    return left


def _minus(batch: Batch, first: int, last: int) -> list[Batch]:
    """Return the parts of the batch before and after these offsets."""
    if batch.last_offset < first or batch.first_offset > last:
        return [batch]
    parts = []
    if batch.first_offset < first:
        parts.append(Batch(batch.first_offset, first - 1, batch.state, batch.delivery_count))
    if batch.last_offset > last:
        parts.append(Batch(last + 1, batch.last_offset, batch.state, batch.delivery_count))
    return parts
