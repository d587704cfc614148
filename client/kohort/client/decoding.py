"""A batch's records as a list: a consumer's speed hangs on this, so it is written out, not split up.

Nearly all batches have two things in common. Their offsets follow one another, so that the header has told
them all. And long stretches of records are alike in every length, so that `struct` cuts them out together.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, repeat
from struct import Struct
from typing import NamedTuple

from kohort.client.values import ConsumerRecord, TimestampType, TopicPartition
from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader
from kohort.protocol.records.reader import iterate_payload, read_headers
from kohort.protocol.records.varint import read_varint, read_varint_rest

CREATE_TIME, LOG_APPEND_TIME = TimestampType
_OFFSET_WIDTHS = ((1, 1 << 6), (2, 1 << 13), (3, 1 << 20), (4, 1 << 27), (5, 1 << 31))
# Looking for records that are alike pays from so many on; it never does where this module is compiled.
_RUN_LEAST = 24 if __file__.endswith(".py") else 1 << 31
_PATIENCE_MOST = 1 << 12
_NULL = 1  # The byte of -1.
_ZIGZAG = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))
_BELOW_128 = bytes(range(128))


class RecordLists:
    """Reads a partition's batches, one after the other, into lists.

    A record's own length is passed over: its fields say as much, and together they have to fill the batch.
    """

    __slots__ = ("_cursor", "_partition")

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._cursor = _Cursor(partition)

    def read(self, header: BatchHeader, data: bytes, records: list[ConsumerRecord]) -> None:
        """Add the records of a batch, of which `data` is the plain payload.

        Raises: WireError; what was added until then is not to be used.
        """
        try:
            if header.last_offset_delta + 1 == header.record_count and not header.has_log_append_time:
                self._read_dense(header, data, records)
                return
            topic, number = self._partition
            records += [
                ConsumerRecord(
                    topic,
                    number,
                    each.offset,
                    each.timestamp,
                    each.key,
                    each.value,
                    each.headers,
                    header.partition_leader_epoch,
                    LOG_APPEND_TIME if header.has_log_append_time else CREATE_TIME,
                )
                for each in iterate_payload(data, header)
            ]
        except IndexError:
            raise WireError(f"the records of the batch at {header.base_offset} end early") from None

    def _read_dense(self, header: BatchHeader, data: bytes, records: list[ConsumerRecord]) -> None:
        """Add the records, whose offsets follow one another. Raises: WireError, IndexError."""
        cursor, count, base_offset = self._cursor, header.record_count, header.base_offset
        cursor.begin(data, header, records)
        if count < min(_RUN_LEAST, _OFFSET_WIDTHS[0][1]):
            cursor.read_each(range(base_offset, base_offset + count), 1)
        else:
            lowest = 0
            for width, above in _OFFSET_WIDTHS:
                cursor.read_width(base_offset, lowest, min(above, count), width)
                if above >= count:
                    break
                lowest = above
        if cursor.position != len(data):
            raise WireError(f"the batch at {base_offset} is not as long as its records")


class _Shape(NamedTuple):
    """Where the parts of a record lie, counted from its first byte; sizes below zero are null."""

    step: int
    timestamp_at: int
    timestamp_width: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    same: tuple[int, ...]  # The bytes that have to be alike: lengths, and no headers.


class _Run(NamedTuple):
    """So many records of one shape."""

    shape: _Shape
    length: int


class _Cursor:
    """The position behind the last record of a batch that was read."""

    __slots__ = ("_base_timestamp", "_data", "_leader_epoch", "_number", "_records", "_topic", "position")

    def __init__(self, partition: TopicPartition) -> None:
        self._topic, self._number = partition
        self._data = b""
        self._base_timestamp, self._leader_epoch = 0, -1
        self._records: list[ConsumerRecord] = []
        self.position = 0

    def begin(self, data: bytes, header: BatchHeader, records: list[ConsumerRecord]) -> None:
        """Read another batch."""
        self._data = data
        self._base_timestamp = header.base_timestamp
        self._leader_epoch = header.partition_leader_epoch
        self._records = records
        self.position = 0

    def read_width(self, base_offset: int, lowest: int, highest: int, width: int) -> None:
        """Add the records from the `lowest` to before the `highest`, whose offsets all take so many bytes."""
        patience = _RUN_LEAST
        while lowest < highest:
            if highest - lowest >= _RUN_LEAST:
                run = _find_run(self._data, self.position, width, highest - lowest)
                if run is not None:
                    self.cut_out(run, base_offset + lowest)
                    lowest += run.length
                    patience = _RUN_LEAST
                    continue
                patience = min(2 * patience, _PATIENCE_MOST)
            stop = min(highest, lowest + patience)
            self.read_each(range(base_offset + lowest, base_offset + stop), width)
            lowest = stop

    def read_each(self, offsets: Iterable[int], offset_width: int) -> None:
        """Add a record for each offset, which takes so many bytes. Raises: WireError, IndexError.

        Numbers of one byte are read in place, and where they are likely of two bytes as well.
        """
        topic, number, data = self._topic, self._number, self._data
        position, base_timestamp, epoch = self.position, self._base_timestamp, self._leader_epoch
        append, record_type = self._records.append, ConsumerRecord
        for offset in offsets:
            if data[position] < 128:  # The length, and behind it the attributes, which are unused.
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
            position += offset_width
            key, byte = None, data[position]
            position += 1
            if byte != _NULL:
                if byte < 128:
                    size = byte >> 1
                else:
                    size, position = _read_long_size(data, position, byte)
                key = data[position : position + size]
                position += size
            value, byte = None, data[position]
            position += 1
            if byte != _NULL:
                if byte < 128:
                    size = byte >> 1
                elif (second := data[position]) < 128:
                    size = (byte & 127 | second << 7) >> 1
                    position += 1
                else:
                    size, position = _read_long_size(data, position, byte)
                value = data[position : position + size]
                position += size
            if data[position]:
                headers, position = read_headers(data, position)
                append(record_type(topic, number, offset, timestamp, key, value, headers, epoch))
            else:
                position += 1
                append(record_type(topic, number, offset, timestamp, key, value, (), epoch))
        self.position = position

    def cut_out(self, run: _Run, offset: int) -> None:
        """Add the records of a run, the first with this offset."""
        shape = run.shape
        stop = self.position + shape.step * run.length
        part = memoryview(self._data)[self.position : stop]
        self._records += map(
            ConsumerRecord,
            repeat(self._topic),
            repeat(self._number),
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


def _read_long_size(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return a size that began with the byte `first`, and the position behind it. Raises: WireError."""
    size, position = read_varint_rest(data, position, first)
    if not 0 <= size <= len(data):
        raise WireError(f"a key or a value of {size} bytes in a batch of {len(data)}")
    return size, position


def _column(part: memoryview, step: int, at: int, size: int) -> Iterable[bytes | None]:
    if size < 0:
        return repeat(None)
    return chain.from_iterable(_cutter(step, at, size).iter_unpack(part))


@lru_cache(maxsize=1024)
def _cutter(step: int, at: int, size: int) -> Struct:
    return Struct(f"{at}x{size}s{step - at - size}x")


def _find_run(data: bytes, position: int, offset_width: int, most: int) -> _Run | None:
    """Return the shape of the record at `position` and how many from there on have it; None for few.

    A record begins where the one before ends, so as long as all lengths are the same bytes in the same
    places, the next record lies as far on again. Raises: WireError, IndexError.
    """
    if not _has_length_of_next(data, position):
        return None
    shape = _shape(data, position, offset_width)
    if shape is None:
        return None
    step = shape.step
    count = min(most, (len(data) - position) // step)
    for place in shape.same:
        if count < _RUN_LEAST:
            return None
        column = data[position + place : position + step * count : step]
        count -= len(column.lstrip(column[:1]))
    at = position + shape.timestamp_at
    column = data[at : position + step * count : step]
    if shape.timestamp_width == 1:
        if not column.isascii():
            count -= len(column.lstrip(_BELOW_128))
    elif min(column, default=0) < 128 or not data[at + 1 : position + step * count : step].isascii():
        return None
    return _Run(shape, count) if count >= _RUN_LEAST else None


def _has_length_of_next(data: bytes, position: int) -> bool:
    """Return whether the next record may have the length of the one at `position`. Raises: IndexError.

    Records of all lengths are the common case, of which this is known at once.
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
    """Return the shape of the record at `position`, None for one that is not common."""
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
        tuple(place - position for place in same),
    )
