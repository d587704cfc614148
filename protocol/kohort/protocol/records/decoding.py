"""Decodes a batch's records into a list. A consumer's hot path: the code is inlined for speed.

Nearly all batches have consecutive offsets, so the header gives the offset of every record. Long runs of
records have the same layout, so `struct` decodes them together.

A record: length varint, attributes int8, timestamp delta varlong, offset delta varint, key length
varint and key, value length varint and value (length -1 is null), header count varint, then per
header a key (UTF-8, never null) and a value. Source: org.apache.kafka.common.record.DefaultRecord.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import Generic, NamedTuple, TypeVar

from kohort.protocol.errors import WireError
from kohort.protocol.records.header import BatchHeader
from kohort.protocol.records.varint import read_varint, read_varint_rest

Headers = tuple[tuple[str, bytes | None], ...]

R = TypeVar("R")
RecordFactory = Callable[[int, int, bytes | None, bytes | None, Headers, int], R]
"""Creates a record from its offset, timestamp, key, value and headers, and its batch's leader epoch."""

_OFFSET_WIDTHS = ((1, 1 << 6), (2, 1 << 13), (3, 1 << 20), (4, 1 << 27), (5, 1 << 31))
# Shorter runs are slower than single records. Where this module is compiled, all runs are.
_RUN_RECORDS_MIN = 24 if __file__.endswith(".py") else 1 << 31
_RETRY_RECORDS_MAX = 1 << 12
_NULL = 1  # The byte of -1.
_ZIGZAG = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))
_BELOW_128 = bytes(range(128))


class _Shape(NamedTuple):
    """The positions of a record's parts, from its first byte. A size below zero means null."""

    step: int
    timestamp_at: int
    timestamp_width: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    same: tuple[int, ...]  # Positions of bytes that all records of a run share: lengths, and no headers.


class _Run(NamedTuple):
    """`length` consecutive records of the same shape."""

    shape: _Shape
    length: int


class RecordLists(Generic[R]):
    """Decodes batches into lists of records, which `make` creates."""

    __slots__ = (
        "_base_timestamp",
        "_data",
        "_leader_epoch",
        "_make",
        "_offset_width",
        "_records",
        "position",
    )

    def __init__(self, make: RecordFactory[R]) -> None:
        self._make = make
        self._data = b""
        self._base_timestamp, self._leader_epoch = 0, -1
        self._records: list[R] = []
        self._offset_width = 1
        self.position = 0

    def read(self, header: BatchHeader, data: bytes, records: list[R]) -> None:
        """Append the records of a batch with the decompressed payload `data`.

        Raises: WireError; then the records appended before are invalid.
        """
        count = header.record_count
        self.begin(header, data, records)
        try:
            if header.last_offset_delta + 1 == count:
                self._read_dense(header.base_offset, count)
            else:
                self.read_stated_offsets(header.base_offset, count)
        except IndexError:
            raise WireError(f"the records of the batch at {header.base_offset} end early") from None
        self.end()

    def begin(self, header: BatchHeader, data: bytes, records: list[R]) -> None:
        """Begin to read a batch."""
        self._data = data
        self._base_timestamp = header.base_timestamp
        self._leader_epoch = header.partition_leader_epoch
        self._records = records
        self.position = 0

    def end(self) -> None:
        """Check that no bytes are left in the batch. Raises: WireError."""
        if self.position != len(self._data):
            left = len(self._data) - self.position
            raise WireError(f"{left} bytes follow the last record of a batch")

    def read_stated_offsets(self, base_offset: int, count: int) -> None:
        """Append `count` records, with the offsets from their deltas. Raises: WireError, IndexError.

        After an error, the records before the malformed one are appended.
        """
        self._read_each(self._stated_offsets(base_offset, count))

    def _stated_offsets(self, base_offset: int, count: int) -> Iterator[int]:
        """Yield the offset of each record. Then check that the caller read exactly the record's length."""
        data, position = self._data, self.position
        for _ in range(count):
            size, body_at = read_varint(data, position)
            offset_at = body_at + 2 if data[body_at + 1] < 128 else read_varint(data, body_at + 1)[1]
            delta, behind = read_varint(data, offset_at)
            self._offset_width = behind - offset_at
            yield base_offset + delta
            position = body_at + size
            if self.position != position:
                self._records.pop()
                raise WireError(f"a record has {self.position - body_at} bytes, but its length is {size}")

    def _read_dense(self, base_offset: int, count: int) -> None:
        """Append records with consecutive offsets. Raises: WireError, IndexError."""
        if count < min(_RUN_RECORDS_MIN, _OFFSET_WIDTHS[0][1]):
            self._offset_width = 1
            self._read_each(range(base_offset, base_offset + count))
            return
        lowest = 0
        for width, above in _OFFSET_WIDTHS:
            self._read_width(base_offset, lowest, min(above, count), width)
            if above >= count:
                break
            lowest = above

    def _read_width(self, base_offset: int, lowest: int, highest: int, width: int) -> None:
        """Append the records from `lowest` to before `highest`, whose offset deltas take `width` bytes."""
        retry_after = _RUN_RECORDS_MIN
        while lowest < highest:
            if highest - lowest >= _RUN_RECORDS_MIN:
                run = _find_run(self._data, self.position, width, highest - lowest)
                if run is not None:
                    self._read_run(run, base_offset + lowest)
                    lowest += run.length
                    retry_after = _RUN_RECORDS_MIN
                    continue
                retry_after = min(2 * retry_after, _RETRY_RECORDS_MAX)
            stop = min(highest, lowest + retry_after)
            self._offset_width = width
            self._read_each(range(base_offset + lowest, base_offset + stop))
            lowest = stop

    def _read_each(self, offsets: Iterable[int]) -> None:
        """Append a record for each offset, whose delta takes `_offset_width` bytes.

        Numbers of one byte are decoded inline, frequent numbers of two bytes as well.
        Raises: WireError, IndexError.
        """
        data, position = self._data, self.position
        base_timestamp, epoch = self._base_timestamp, self._leader_epoch
        append, make = self._records.append, self._make
        for offset in offsets:
            if data[position] < 128:  # The length and the attributes, which are unused.
                position += 2
            elif data[position + 1] < 128:
                position += 3
            else:
                position = read_varint(data, position)[1] + 1
            timestamp, byte = base_timestamp, data[position]
            position += 1
            if byte >= 128:
                delta, position = read_varint_rest(data, position, byte)
                timestamp += delta
            elif byte:
                timestamp += byte >> 1 ^ -(byte & 1)
            position += self._offset_width
            key, byte = None, data[position]
            position += 1
            if not byte & 1:  # An odd byte is a negative number, which means null.
                if byte < 128:
                    size = byte >> 1
                else:
                    size, position = _read_long_size(data, position, byte)
                key = data[position : position + size]
                position += size
            elif byte != _NULL:
                _, position = read_varint(data, position - 1)
            value, byte = None, data[position]
            position += 1
            if not byte & 1:
                if byte < 128:
                    size = byte >> 1
                elif (second := data[position]) < 128:
                    size = (byte & 127 | second << 7) >> 1
                    position += 1
                else:
                    size, position = _read_long_size(data, position, byte)
                value = data[position : position + size]
                position += size
            elif byte != _NULL:
                _, position = read_varint(data, position - 1)
            if data[position]:
                headers, position = read_headers(data, position)
                append(make(offset, timestamp, key, value, headers, epoch))
            else:
                position += 1
                append(make(offset, timestamp, key, value, (), epoch))
            self.position = position

    def _read_run(self, run: _Run, offset: int) -> None:
        """Append the records of a run; `offset` is the first one's."""
        shape = run.shape
        stop = self.position + shape.step * run.length
        part = memoryview(self._data)[self.position : stop]
        self._records += map(
            self._make,
            range(offset, offset + run.length),
            self._timestamps(shape, stop),
            _column(part, shape.step, shape.key_at, shape.key_size),
            _column(part, shape.step, shape.value_at, shape.value_size),
            repeat(()),
            repeat(self._leader_epoch),
        )
        self.position = stop

    def _timestamps(self, shape: _Shape, stop: int) -> Iterable[int]:
        data, at, base = self._data, self.position + shape.timestamp_at, self._base_timestamp
        low = data[at : stop : shape.step]
        if shape.timestamp_width == 2:
            high = data[at + 1 : stop : shape.step]
            zigzags = (first & 127 | second << 7 for first, second in zip(low, high, strict=True))
            return [base + (each >> 1 ^ -(each & 1)) for each in zigzags]
        if low.count(0) == len(low):
            return repeat(base)
        return [base + _ZIGZAG[each] for each in low]


def read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    """Return a record's headers and the position behind them. Raises: WireError, IndexError."""
    count, position = read_varint(data, position)
    if count < 0 or count > len(data) - position:
        raise WireError(f"a record with {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0:
            raise WireError("a record header without a key")
        key = data[position : position + size].decode("utf-8", "replace")  # Like Java's String.
        position += size
        size, position = read_varint(data, position)
        value: bytes | None = None
        if size >= 0:
            value = data[position : position + size]
            position += size
        headers.append((key, value))
    return tuple(headers), position


def _read_long_size(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return the size with the first byte `first`, and the position behind it. Raises: WireError."""
    size, position = read_varint_rest(data, position, first)
    if not 0 <= size <= len(data):
        raise WireError(f"a key or a value of {size} bytes in a batch of {len(data)}")
    return size, position


def _column(part: memoryview, step: int, at: int, size: int) -> Iterable[bytes | None]:
    if size < 0:
        return repeat(None)
    return chain.from_iterable(_slicer(step, at, size).iter_unpack(part))


@lru_cache(maxsize=1024)
def _slicer(step: int, at: int, size: int) -> Struct:
    return Struct(f"{at}x{size}s{step - at - size}x")


def _find_run(data: bytes, position: int, offset_width: int, most: int) -> _Run | None:
    """Return the run of records with the same shape at `position`, or None if it is short.

    Records with the same length bytes have the same size, so each begins one step after the one before.
    Raises: WireError, IndexError.
    """
    if not _has_length_of_next(data, position):
        return None
    shape = _shape(data, position, offset_width)
    if shape is None:
        return None
    step = shape.step
    count = min(most, (len(data) - position) // step)
    for start in shape.same:
        if count < _RUN_RECORDS_MIN:
            return None
        column = data[position + start : position + step * count : step]
        count -= len(column.lstrip(column[:1]))
    at = position + shape.timestamp_at
    column = data[at : position + step * count : step]
    if shape.timestamp_width == 1:
        if not column.isascii():
            count -= len(column.lstrip(_BELOW_128))
    elif min(column, default=0) < 128 or not data[at + 1 : position + step * count : step].isascii():
        return None
    return _Run(shape, count) if count >= _RUN_RECORDS_MIN else None


def _has_length_of_next(data: bytes, position: int) -> bool:
    """Return whether the next record may have the length of the one at `position`. Raises: IndexError.

    This quickly rejects batches with records of different lengths, the usual case.
    """
    first = data[position]
    if first < 128:
        return data[position + 1 + (first >> 1)] == first
    second = data[position + 1]
    if second >= 128:
        return True
    behind = position + 2 + ((first & 127 | second << 7) >> 1)
    return data[behind] == first and data[behind + 1] == second


def _shape(data: bytes, position: int, offset_width: int) -> _Shape | None:
    """Return the shape of the record at `position`, or None for an unusual one."""
    size, begin = read_varint(data, position)
    step = begin + size - position
    at = begin + 1 - position
    width = 1 if data[begin + 1] < 128 else 2
    if width == 2 and data[begin + 2] >= 128:
        return None
    key_size, key_at = read_varint(data, begin + 1 + width + offset_width)
    key_length_at = begin + 1 + width + offset_width
    value_length_at = key_at + max(key_size, 0)
    value_size, value_at = read_varint(data, value_length_at)
    end = value_at + max(value_size, 0)
    if size < 0 or end + 1 - position != step or data[end]:
        return None
    same = (*range(position, begin), *range(key_length_at, key_at), *range(value_length_at, value_at), end)
    return _Shape(
        step,
        at,
        width,
        key_at - position,
        key_size,
        value_at - position,
        value_size,
        tuple(each - position for each in same),
    )
