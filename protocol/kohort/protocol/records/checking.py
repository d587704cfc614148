"""Checks that the records of a batch match its header, so that no reader and no cleaner fails on them.

The check creates no objects per record: it reads a record's lengths, offset delta and timestamp. Runs of
records with the same layout are checked together. Any thread may run it, because it changes only its
arguments. It stops when it exceeds the `WorkBudget`.
Source: org.apache.kafka.storage.internals.log.LogValidator, org.apache.kafka.common.record.DefaultRecord.
"""

import struct

import msgspec

from kohort.protocol.errors import WireError
from kohort.protocol.records.compressed_framing import DecompressedSizeExceeded, check_framing
from kohort.protocol.records.compression import decompress
from kohort.protocol.records.header import (
    CRC_POSITION,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    Compression,
    batch_crc,
)
from kohort.protocol.records.runs import RECORDS_UNTIL_RETRY, Shape, find_run
from kohort.protocol.records.varint import read_varint
from kohort.protocol.records.work_budget import MAX_HEADERS_PER_RECORD, WorkBudget, WorkBudgetExceeded

MAX_REPORTED = 1_000  # A response need not list a million records.

_MAX_TIMESTAMP_POSITION = 35
_TWO_BYTES_FROM = 128
_LEAST_DELTA, _LARGEST_DELTA = -(1 << 63), (1 << 63) - 1
_RUN_STEPS = 8  # The cost of checking a run of any length.


class TimestampBounds(msgspec.Struct, frozen=True, gc=False):
    """The allowed timestamps of records. Records without a timestamp are exempt."""

    earliest_ms: int = _LEAST_DELTA
    latest_ms: int = _LARGEST_DELTA


ANY_TIMESTAMP = TimestampBounds()


class CheckedRecords(msgspec.Struct, frozen=True, gc=False):
    """The newest timestamp, the indexes of records without a key, and index and timestamp out of bounds.

    Both lists have at most `MAX_REPORTED` records.
    """

    max_timestamp: int
    without_key: tuple[int, ...]
    out_of_bounds: tuple[tuple[int, int], ...] = ()


def check_records(
    batch: Buffer,
    header: BatchHeader,
    bounds: TimestampBounds = ANY_TIMESTAMP,
    budget: WorkBudget | None = None,
) -> CheckedRecords:
    """Check all records of a batch, compressed or not.

    Raises: WorkBudgetExceeded; WireError if the batch does not decompress, if the number or the lengths of
    its records are wrong, or if their offsets are not consecutive.
    """
    budget = budget or WorkBudget.full()
    return check_payload(read_payload(batch, header, budget), header, bounds, budget)


def read_payload(batch: Buffer, header: BatchHeader, budget: WorkBudget) -> bytes:
    """Return the decompressed records of a batch.

    Raises: WorkBudgetExceeded; WireError, also for a framing that Kafka's Java client cannot read.
    """
    compressed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.compression is Compression.NONE:
        return bytes(compressed)
    check_framing(header.compression, compressed)
    try:
        payload = decompress(header.compression, compressed, max(0, budget.decompressed_bytes))
    except DecompressedSizeExceeded as error:
        raise WorkBudgetExceeded(str(error)) from None
    budget.spend_decompressed(len(payload))
    return payload


def check_payload(
    payload: bytes, header: BatchHeader, bounds: TimestampBounds, budget: WorkBudget
) -> CheckedRecords:
    """Check the records in a decompressed payload. Raises: WorkBudgetExceeded, WireError."""
    walk = _Walk(payload, header, bounds, budget)
    try:
        walk.run()
    except IndexError:
        raise WireError("the records end early") from None
    out_of_bounds: tuple[tuple[int, int], ...] = ()
    if walk.out_of_bounds:
        out_of_bounds = tuple((index, header.base_timestamp + delta) for index, delta in walk.out_of_bounds)
    if header.has_log_append_time:
        return CheckedRecords(header.max_timestamp, tuple(walk.without_key), out_of_bounds)
    newest_ms = max(NO_TIMESTAMP, header.base_timestamp + walk.newest)
    return CheckedRecords(newest_ms, tuple(walk.without_key), out_of_bounds)


def with_max_timestamp(batch: Buffer, timestamp_ms: int) -> bytes:
    """Return the batch with this `max_timestamp` and a new CRC."""
    changed = bytearray(batch)
    struct.pack_into(">q", changed, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    struct.pack_into(">I", changed, CRC_POSITION, batch_crc(changed))
    return bytes(changed)


class _Walk:
    """One pass over the records of a batch, and its results."""

    __slots__ = (
        "_budget",
        "_count",
        "_earliest",
        "_latest",
        "_next_try",
        "_no_time",
        "_payload",
        "newest",
        "out_of_bounds",
        "without_key",
    )

    def __init__(
        self, payload: bytes, header: BatchHeader, bounds: TimestampBounds, budget: WorkBudget
    ) -> None:
        self._payload = payload
        self._count = header.record_count
        self._budget = budget
        self._earliest = bounds.earliest_ms - header.base_timestamp  # relative, like the deltas
        self._latest = bounds.latest_ms - header.base_timestamp
        self._no_time = NO_TIMESTAMP - header.base_timestamp
        self._next_try = 1
        self.newest = _LEAST_DELTA
        self.without_key: list[int] = []
        self.out_of_bounds: list[tuple[int, int]] = []

    def run(self) -> None:
        """Check every record. Raises: WorkBudgetExceeded, WireError, IndexError."""
        payload, count, without_key = self._payload, self._count, self.without_key
        earliest, latest = self._earliest, self._latest
        start, end, index = 0, len(payload), 0
        newest, size_before = self.newest, 0
        steps = 0
        while index < count:
            if steps <= 0:
                steps += self._budget.next_slice()
                continue
            steps -= 1
            size, body_at = read_varint(payload, start)
            stop = body_at + size
            if size < 0 or stop > end:
                raise WireError(f"record {index} has {size} bytes, but {end - body_at} are left")
            # After the attributes, which are unused.
            delta, offset_delta_at = read_varint(payload, body_at + 1)
            if delta > newest:  # noqa: PLR1730  # `max` takes three times as long.
                newest = delta
            if not earliest <= delta <= latest:
                self._add_out_of_bounds(index, delta)
            if payload[offset_delta_at] == index << 1 < _TWO_BYTES_FROM:
                key_at = offset_delta_at + 1
            else:
                offset_delta, key_at = read_varint(payload, offset_delta_at)
                if offset_delta != index:
                    raise WireError(f"record {index} has the offset delta {offset_delta}")
            key_size, key_data = read_varint(payload, key_at)
            value_at = key_data + key_size if key_size > 0 else key_data
            if key_size < 0 and len(without_key) < MAX_REPORTED:
                without_key.append(index)
            value_size, value_data = read_varint(payload, value_at)
            headers_at = value_data + value_size if value_size > 0 else value_data
            index += 1
            size = stop - start
            if payload[headers_at] != 0 or headers_at + 1 != stop:
                steps -= _check_headers(payload, headers_at, stop, index - 1)
            elif size == size_before and index >= self._next_try:
                bounds = (body_at + 1, offset_delta_at, key_at, key_data, value_at, value_data, stop)
                shape = Shape(*(each - start for each in bounds))
                run = self._skip_run(start, index, min(count - index, (end - stop) // size), shape, key_size)
                index += run
                stop += run * size
                steps -= _RUN_STEPS
            size_before, start = size, stop
        if start != end:
            raise WireError(f"{end - start} bytes follow the last record")
        self._budget.give_back(steps)
        self.newest = max(newest, self.newest)

    def _skip_run(self, start: int, index: int, count_max: int, shape: Shape, key_size: int) -> int:
        """Return the number of records from `index` on that a run check covers."""
        run = find_run(self._payload, start, index, count_max, shape)
        if not run.records or not self._earliest <= run.oldest <= run.newest <= self._latest:
            self._next_try = index + RECORDS_UNTIL_RETRY
            return 0
        self._next_try = index + run.records + 1
        self.newest = max(self.newest, run.newest)
        if key_size < 0:
            room = MAX_REPORTED - len(self.without_key)
            self.without_key.extend(range(index, index + min(run.records, room)))
        return run.records

    def _add_out_of_bounds(self, index: int, delta: int) -> None:
        if delta != self._no_time and len(self.out_of_bounds) < MAX_REPORTED:
            self.out_of_bounds.append((index, delta))


def _check_headers(payload: bytes, position: int, stop: int, index: int) -> int:
    """Return the number of a record's headers.

    Raises: WireError unless they end with the record, and for too many headers; IndexError.
    """
    count, position = read_varint(payload, position)
    if not 0 <= count <= min(stop - position, MAX_HEADERS_PER_RECORD):
        raise WireError(f"record {index} has {count} headers")
    for _ in range(count):
        size, position = read_varint(payload, position)
        if size < 0:
            raise WireError(f"record {index} has a header without a key")
        position += size
        size, position = read_varint(payload, position)
        position += max(0, size)
    if position != stop:
        raise WireError(f"record {index} is {position - stop} bytes longer than it says")
    return count
