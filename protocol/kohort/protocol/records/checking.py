"""Whether the records of a batch are what its header says: no reader and no cleaner shall stumble over them.

A walk that makes no objects: of each record its lengths, its place and its time are looked at, and records
of one shape that follow one another are looked at together, column by column.
Source: org.apache.kafka.storage.internals.log.LogValidator, org.apache.kafka.common.record.DefaultRecord.
"""

import struct
from typing import NamedTuple

from kohort.protocol.errors import WireError
from kohort.protocol.records.header import CRC_POSITION, NO_TIMESTAMP, BatchHeader, Buffer, batch_crc
from kohort.protocol.records.rewriting import plain_payload
from kohort.protocol.records.varint import VARINTS, read_varint, read_varint_rest

_MAX_TIMESTAMP_POSITION = 35
_RUN_LEAST = 16  # So many records of one shape, or a look at them together is no gain.
_PATIENCE = 64  # Records until the next try, where there was no run.
_ONE_BYTE, _TWO_BYTES = 64, 8192  # Zigzag numbers below these take one byte, or two.
_TWO_BYTES_FROM = 128
_LAST_BYTES = bytes(range(128))
_OTHER_BYTES = bytes(range(128, 256))
_PLACES = (
    bytes(each[0] for each in VARINTS[:_TWO_BYTES]),
    bytes(each[-1] for each in VARINTS[:_TWO_BYTES]),
)


class Checked(NamedTuple):
    """What a walk has found: the newest timestamp, and the places of records without a key."""

    max_timestamp: int
    keyless: tuple[int, ...]


class _Shape(NamedTuple):
    """Where in a record its numbers begin, and how long it is."""

    time: int
    place: int
    key: int
    key_data: int
    value: int
    value_data: int
    size: int


def check_records(batch: Buffer, header: BatchHeader) -> Checked:
    """Return what is known of the records once all of them were found sound, compressed or not.

    Raises: WireError where the batch does not decompress, where its records are not as many or as long as
    is said, or where their offsets do not follow one another.
    """
    payload = plain_payload(batch, header)
    try:
        newest, keyless = _walk(payload, header.record_count)
    except IndexError:
        raise WireError("the records end early") from None
    if header.has_log_append_time:
        return Checked(header.max_timestamp, keyless)
    return Checked(max(NO_TIMESTAMP, header.base_timestamp + newest), keyless)


def with_max_timestamp(batch: Buffer, timestamp_ms: int) -> bytes:
    """Return the batch with this newest timestamp in its header, and the CRC that belongs to it."""
    changed = bytearray(batch)
    struct.pack_into(">q", changed, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    struct.pack_into(">I", changed, CRC_POSITION, batch_crc(changed))
    return bytes(changed)


def _walk(payload: bytes, count: int) -> tuple[int, tuple[int, ...]]:
    """Return the largest timestamp delta and the places without a key.

    Variable length integers of a byte, the usual ones, are read in place. Raises: WireError, IndexError.
    """
    start, end, place = 0, len(payload), 0
    newest = -(1 << 63)
    keyless: list[int] = []
    size_before, next_try = 0, 1
    while place < count:
        byte, position = payload[start], start + 1
        if byte < 128:
            size = (byte >> 1) ^ -(byte & 1)
        else:
            size, position = read_varint_rest(payload, position, byte)
        stop = position + size
        if size < 0 or stop > end:
            raise WireError(f"record {place} is of {size} bytes where {end - position} are left")
        time_at = position + 1  # Behind the attributes, which are unused.
        delta, position = read_varint(payload, time_at)
        if delta > newest:  # noqa: PLR1730  # `max` takes three times as long.
            newest = delta
        place_at = position
        if payload[position] == place << 1 < _TWO_BYTES_FROM:
            position += 1
        else:
            offset_delta, position = read_varint(payload, position)
            if offset_delta != place:
                raise WireError(f"record {place} has the offset delta {offset_delta}")
        key_at = position
        key_size, key_data = read_varint(payload, position)
        value_at = key_data + key_size if key_size > 0 else key_data
        if key_size < 0:
            keyless.append(place)
        value_size, value_data = read_varint(payload, value_at)
        position = value_data + value_size if value_size > 0 else value_data
        has_headers = payload[position] != 0
        if has_headers or position + 1 != stop:
            _check_headers(payload, position, stop, place)
        place += 1
        size = stop - start
        if size == size_before and place >= next_try and key_size >= 0 and not has_headers:
            most = min(count - place, (end - stop) // size)
            bounds = (time_at, place_at, key_at, key_data, value_at, value_data, stop)
            run, delta = _run(payload, start, place, most, _Shape(*(each - start for each in bounds)))
            next_try = place + run + (1 if run else _PATIENCE)
            newest = max(newest, delta)
            place += run
            stop += run * size
        size_before = size
        start = stop
    if start != end:
        raise WireError(f"{end - start} bytes are left behind the last record")
    return newest, tuple(keyless)


def _run(payload: bytes, start: int, place: int, most: int, shape: _Shape) -> tuple[int, int]:
    """Return how many records from `place` on have the shape of the sound one at `start`, at most `most`.

    And their largest timestamp delta. Equal sizes, lengths and header counts, byte for byte, leave nothing
    else to be wrong; what is none of the run is left to be looked at by itself.
    """
    places = shape.key - shape.place
    most = min(most, (_ONE_BYTE, _TWO_BYTES)[places - 1] - place if places < 3 else 0)
    times = shape.place - shape.time
    if most < _RUN_LEAST or times > 2:
        return 0, -1
    size = shape.size
    first = start + size

    def column(at: int) -> bytes:
        return payload[first + at : first + most * size : size]

    lengths = (
        *range(shape.time - 1),
        *range(shape.key, shape.key_data),
        *range(shape.value, shape.value_data),
    )
    for at in (*lengths, size - 1):
        found = column(at)
        most = min(most, len(found) - len(found.lstrip(payload[start + at : start + at + 1])))
    for at in range(shape.time, shape.place):
        found = column(at)
        expected = _LAST_BYTES if at == shape.place - 1 else _OTHER_BYTES
        most = min(most, len(found) - len(found.lstrip(expected)))
    for at, expected in zip(range(shape.place, shape.key), _PLACES, strict=False):
        if column(at) != expected[place : place + most]:
            return 0, -1
    if most < _RUN_LEAST:
        return 0, -1
    return most, _newest_delta(*(column(at) for at in range(shape.time, shape.place)))


def _newest_delta(low: bytes, high: bytes = b"") -> int:
    """Return the largest of zigzag numbers of a byte, or two, each."""
    zigzags = {a & 127 | b << 7 for a, b in set(zip(low, high, strict=True))} if high else set(low)
    return max((number >> 1) ^ -(number & 1) for number in zigzags)


def _check_headers(payload: bytes, position: int, stop: int, place: int) -> None:
    """Raise WireError unless the headers end where the record does. Raises: IndexError as well."""
    count, position = read_varint(payload, position)
    if not 0 <= count <= stop - position:
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
