"""Checks consecutive records of the same shape together, column by column.

If the bytes of all lengths and header counts are equal, only timestamps and offset deltas can differ:
timestamps are read, and offset deltas are compared with a table. Records outside a run are checked one by
one.
"""

from typing import NamedTuple

from kohort.protocol.records.varint import VARINTS

RUN_RECORDS_MIN = 16  # Shorter runs are faster one by one.
RECORDS_UNTIL_RETRY = 64  # Records until the next search for a run.

_ONE_BYTE, _TWO_BYTES, _THREE_BYTES = 64, 8192, 1 << 20  # Varints below these take so many bytes.
_LAST_BYTES = bytes(range(128))
_OTHER_BYTES = bytes(range(128, 256))
_LOWEST = bytes([each[0] for each in VARINTS])
_HIGHEST = bytes([each[-1] for each in VARINTS])
# In varints of three bytes the lower two repeat every 8,192 records, and the highest stays the same
# meanwhile.
_LOWEST_OF_THREE = bytes(range(128, 256, 2)) * 128
_MIDDLE = bytes([index for index in range(128, 256) for _ in range(64)])


class Shape(NamedTuple):
    """The positions of a record's numbers, and its size."""

    timestamp: int
    offset_delta: int
    key: int
    key_data: int
    value: int
    value_data: int
    size: int


class Run(NamedTuple):
    """The number of records of one shape, and their smallest and largest timestamp deltas."""

    records: int = 0
    oldest: int = 0
    newest: int = 0


NO_RUN = Run()


def find_run(payload: bytes, start: int, index: int, count_max: int, shape: Shape) -> Run:
    """Return the run of records from `index` on with the shape of the valid record at `start`."""
    count_max = min(count_max, _end_of_table(index, shape.key - shape.offset_delta) - index)
    if count_max < RUN_RECORDS_MIN or shape.offset_delta - shape.timestamp > 2:
        return NO_RUN
    size = shape.size
    first = start + size

    def column(at: int) -> bytes:
        return payload[first + at : first + count_max * size : size]

    lengths = (
        *range(shape.timestamp - 1),
        *range(shape.key, shape.key_data),
        *range(shape.value, shape.value_data),
    )
    for at in (*lengths, size - 1):
        found = column(at)
        count_max = min(count_max, len(found) - len(found.lstrip(payload[start + at : start + at + 1])))
    for at in range(shape.timestamp, shape.offset_delta):
        found = column(at)
        expected = _LAST_BYTES if at == shape.offset_delta - 1 else _OTHER_BYTES
        count_max = min(count_max, len(found) - len(found.lstrip(expected)))
    if count_max < RUN_RECORDS_MIN:
        return NO_RUN
    for at, expected in enumerate(
        _offset_deltas(index, count_max, shape.key - shape.offset_delta), shape.offset_delta
    ):
        if column(at) != expected:
            return NO_RUN
    deltas = _timestamp_deltas(*(column(at) for at in range(shape.timestamp, shape.offset_delta)))
    return Run(count_max, min(deltas), max(deltas))


def _end_of_table(index: int, width: int) -> int:
    """Return the end of the indexes that `_offset_deltas` can return together with this one."""
    if width == 3 and _TWO_BYTES <= index < _THREE_BYTES:
        return (index // _TWO_BYTES + 1) * _TWO_BYTES
    return (0, _ONE_BYTE, _TWO_BYTES)[width] if width < 3 else 0


def _offset_deltas(index: int, count: int, width: int) -> tuple[bytes, ...]:
    """Return the bytes of `count` offset deltas from `index` on, column by column."""
    if width < 3:
        return tuple(each[index : index + count] for each in (_LOWEST, _HIGHEST)[:width])
    within = slice(index % _TWO_BYTES, index % _TWO_BYTES + count)
    return _LOWEST_OF_THREE[within], _MIDDLE[within], bytes((index // _TWO_BYTES,)) * count


def _timestamp_deltas(low: bytes, high: bytes = b"") -> set[int]:
    """Return the values of zigzag varints of one byte, or two, each."""
    zigzags = {a & 127 | b << 7 for a, b in set(zip(low, high, strict=True))} if high else set(low)
    return {(number >> 1) ^ -(number & 1) for number in zigzags}
