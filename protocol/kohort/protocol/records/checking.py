"""Whether the records of a batch are what its header says: no reader and no cleaner shall stumble over them.

A walk that makes no objects: of each record its lengths, its place and its time are looked at, and records
of one shape that follow one another are looked at together. It touches nothing but its arguments, so any
thread may do it, and ends early where it is more work than the `Effort` allows.
Source: org.apache.kafka.storage.internals.log.LogValidator, org.apache.kafka.common.record.DefaultRecord.
"""

import struct

import msgspec

from kohort.protocol.errors import WireError
from kohort.protocol.records.compressed_framing import PlainSizeExceeded, check_framing
from kohort.protocol.records.compression import decompress
from kohort.protocol.records.effort import MAX_HEADERS_PER_RECORD, Effort, EffortExceeded
from kohort.protocol.records.header import (
    CRC_POSITION,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    Compression,
    batch_crc,
)
from kohort.protocol.records.runs import PATIENCE, Shape, find_run
from kohort.protocol.records.varint import read_varint

MAX_NOTED = 1_000  # So many records of a kind are named; an answer need not name a million.

_MAX_TIMESTAMP_POSITION = 35
_TWO_BYTES_FROM = 128
_LEAST_DELTA, _LARGEST_DELTA = -(1 << 63), (1 << 63) - 1
_RUN_STEPS = 8  # What a look at a run costs, however long it is.


class Demands(msgspec.Struct, frozen=True, gc=False):
    """Between which times records must lie; those without a timestamp are exempt."""

    earliest_ms: int = _LEAST_DELTA
    latest_ms: int = _LARGEST_DELTA


NO_DEMANDS = Demands()


class Checked(msgspec.Struct, frozen=True, gc=False):
    """What a walk has found: the newest timestamp, the places without a key, places and untimely times.

    Of either kind the first thousand at most.
    """

    max_timestamp: int
    keyless: tuple[int, ...]
    untimely: tuple[tuple[int, int], ...] = ()


def check_records(
    batch: Buffer, header: BatchHeader, demands: Demands = NO_DEMANDS, effort: Effort | None = None
) -> Checked:
    """Return what is known of the records once all of them were found sound, compressed or not.

    Raises: EffortExceeded where that is more work than allowed; WireError where the batch does not
    decompress, where its records are not as many or as long as is said, or where their offsets do not
    follow one another.
    """
    effort = effort or Effort.full()
    return check_payload(read_payload(batch, header, effort), header, demands, effort)


def read_payload(batch: Buffer, header: BatchHeader, effort: Effort) -> bytes:
    """Return the records of a batch one behind the other.

    Raises: EffortExceeded, WireError, also for what Kafka's Java client would not read.
    """
    compressed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    if header.compression is Compression.NONE:
        return bytes(compressed)
    check_framing(header.compression, compressed)
    try:
        payload = decompress(header.compression, compressed, max(0, effort.plain_bytes))
    except PlainSizeExceeded as error:
        raise EffortExceeded(str(error)) from None
    effort.spend_plain(len(payload))
    return payload


def check_payload(payload: bytes, header: BatchHeader, demands: Demands, effort: Effort) -> Checked:
    """Return what is known of records that were read from a batch. Raises: EffortExceeded, WireError."""
    walk = _Walk(payload, header, demands, effort)
    try:
        walk.run()
    except IndexError:
        raise WireError("the records end early") from None
    untimely: tuple[tuple[int, int], ...] = ()
    if walk.untimely:
        untimely = tuple((place, header.base_timestamp + delta) for place, delta in walk.untimely)
    if header.has_log_append_time:
        return Checked(header.max_timestamp, tuple(walk.keyless), untimely)
    newest_ms = max(NO_TIMESTAMP, header.base_timestamp + walk.newest)
    return Checked(newest_ms, tuple(walk.keyless), untimely)


def with_max_timestamp(batch: Buffer, timestamp_ms: int) -> bytes:
    """Return the batch with this newest timestamp in its header, and the CRC that belongs to it."""
    changed = bytearray(batch)
    struct.pack_into(">q", changed, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    struct.pack_into(">I", changed, CRC_POSITION, batch_crc(changed))
    return bytes(changed)


class _Walk:
    """One way through the records of a batch, and what was noted on it."""

    __slots__ = (
        "_count",
        "_earliest",
        "_effort",
        "_latest",
        "_next_try",
        "_no_time",
        "_payload",
        "keyless",
        "newest",
        "untimely",
    )

    def __init__(self, payload: bytes, header: BatchHeader, demands: Demands, effort: Effort) -> None:
        self._payload = payload
        self._count = header.record_count
        self._effort = effort
        self._earliest = demands.earliest_ms - header.base_timestamp  # as the deltas are counted
        self._latest = demands.latest_ms - header.base_timestamp
        self._no_time = NO_TIMESTAMP - header.base_timestamp
        self._next_try = 1
        self.newest = _LEAST_DELTA
        self.keyless: list[int] = []
        self.untimely: list[tuple[int, int]] = []

    def run(self) -> None:
        """Look at every record. Raises: EffortExceeded, WireError, IndexError."""
        payload, count, keyless = self._payload, self._count, self.keyless
        earliest, latest = self._earliest, self._latest
        start, end, place = 0, len(payload), 0
        newest, size_before = self.newest, 0
        steps = 0
        while place < count:
            if steps <= 0:
                steps += self._effort.next_slice()
                continue
            steps -= 1
            size, body_at = read_varint(payload, start)
            stop = body_at + size
            if size < 0 or stop > end:
                raise WireError(f"record {place} is of {size} bytes where {end - body_at} are left")
            delta, place_at = read_varint(payload, body_at + 1)  # Behind the attributes, which are unused.
            if delta > newest:  # noqa: PLR1730  # `max` takes three times as long.
                newest = delta
            if not earliest <= delta <= latest:
                self._note_untimely(place, delta)
            if payload[place_at] == place << 1 < _TWO_BYTES_FROM:
                key_at = place_at + 1
            else:
                offset_delta, key_at = read_varint(payload, place_at)
                if offset_delta != place:
                    raise WireError(f"record {place} has the offset delta {offset_delta}")
            key_size, key_data = read_varint(payload, key_at)
            value_at = key_data + key_size if key_size > 0 else key_data
            if key_size < 0 and len(keyless) < MAX_NOTED:
                keyless.append(place)
            value_size, value_data = read_varint(payload, value_at)
            headers_at = value_data + value_size if value_size > 0 else value_data
            place += 1
            size = stop - start
            if payload[headers_at] != 0 or headers_at + 1 != stop:
                steps -= _check_headers(payload, headers_at, stop, place - 1)
            elif size == size_before and place >= self._next_try:
                bounds = (body_at + 1, place_at, key_at, key_data, value_at, value_data, stop)
                shape = Shape(*(each - start for each in bounds))
                run = self._skip_run(start, place, min(count - place, (end - stop) // size), shape, key_size)
                place += run
                stop += run * size
                steps -= _RUN_STEPS
            size_before, start = size, stop
        if start != end:
            raise WireError(f"{end - start} bytes are left behind the last record")
        self._effort.give_back(steps)
        self.newest = max(newest, self.newest)

    def _skip_run(self, start: int, place: int, most: int, shape: Shape, key_size: int) -> int:
        """Return how many records from `place` on need no look of their own."""
        run = find_run(self._payload, start, place, most, shape)
        if not run.records or not self._earliest <= run.oldest <= run.newest <= self._latest:
            self._next_try = place + PATIENCE
            return 0
        self._next_try = place + run.records + 1
        self.newest = max(self.newest, run.newest)
        if key_size < 0:
            room = MAX_NOTED - len(self.keyless)
            self.keyless.extend(range(place, place + min(run.records, room)))
        return run.records

    def _note_untimely(self, place: int, delta: int) -> None:
        if delta != self._no_time and len(self.untimely) < MAX_NOTED:
            self.untimely.append((place, delta))


def _check_headers(payload: bytes, position: int, stop: int, place: int) -> int:
    """Return how many headers a record has.

    Raises: WireError unless they end where the record does, and for more than a record may have.
    Raises: IndexError as well.
    """
    count, position = read_varint(payload, position)
    if not 0 <= count <= min(stop - position, MAX_HEADERS_PER_RECORD):
        raise WireError(f"record {place} has {count} headers")
    for _ in range(count):
        size, position = read_varint(payload, position)
        if size < 0:
            raise WireError(f"record {place} has a header without a key")
        position += size
        size, position = read_varint(payload, position)
        position += max(0, size)
    if position != stop:
        raise WireError(f"record {place} is {position - stop} bytes longer than it says")
    return count
