"""Records of one shape that follow one another, looked at together, column by column.

Equal sizes, lengths and header counts, byte for byte, leave nothing else to be wrong: only the times are
read, and the places compared with a table. What is none of the run is left to be looked at by itself.
"""

from typing import NamedTuple

from kohort.protocol.records.varint import VARINTS

LEAST = 16  # So many records of one shape, or a look at them together is no gain.
PATIENCE = 64  # Records until the next try, where there was no run.

_ONE_BYTE, _TWO_BYTES, _THREE_BYTES = 64, 8192, 1 << 20  # Zigzag places below these take so many bytes.
_LAST_BYTES = bytes(range(128))
_OTHER_BYTES = bytes(range(128, 256))
_LOWEST = bytes(each[0] for each in VARINTS[:_TWO_BYTES])
_HIGHEST = bytes(each[-1] for each in VARINTS[:_TWO_BYTES])
# Of three bytes the lower two go around within 8,192 places, and the highest stays for as long.
_LOWEST_OF_THREE = bytes(place << 1 & 127 | 128 for place in range(_TWO_BYTES))
_MIDDLE = bytes(place >> 6 & 127 | 128 for place in range(_TWO_BYTES))


class Shape(NamedTuple):
    """Where in a record its numbers begin, and how long it is."""

    time: int
    place: int
    key: int
    key_data: int
    value: int
    value_data: int
    size: int


class Run(NamedTuple):
    """So many records of one shape, and the smallest and the largest of their timestamp deltas."""

    records: int = 0
    oldest: int = 0
    newest: int = 0


NO_RUN = Run()


def find_run(payload: bytes, start: int, place: int, most: int, shape: Shape) -> Run:
    """Return how many records from `place` on have the shape of the sound one at `start`, at most `most`."""
    most = min(most, _end_of_table(place, shape.key - shape.place) - place)
    if most < LEAST or shape.place - shape.time > 2:
        return NO_RUN
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
    if most < LEAST:
        return NO_RUN
    for at, expected in enumerate(_places(place, most, shape.key - shape.place), shape.place):
        if column(at) != expected:
            return NO_RUN
    deltas = _deltas(*(column(at) for at in range(shape.time, shape.place)))
    return Run(most, min(deltas), max(deltas))


def _end_of_table(place: int, width: int) -> int:
    """Return the first place behind those that `_places` knows of together with this one."""
    if width == 3 and _TWO_BYTES <= place < _THREE_BYTES:
        return (place // _TWO_BYTES + 1) * _TWO_BYTES
    return (0, _ONE_BYTE, _TWO_BYTES)[width] if width < 3 else 0


def _places(place: int, count: int, width: int) -> tuple[bytes, ...]:
    """Return the bytes, column by column, of `count` places from this one on."""
    if width < 3:
        return tuple(each[place : place + count] for each in (_LOWEST, _HIGHEST)[:width])
    within = slice(place % _TWO_BYTES, place % _TWO_BYTES + count)
    return _LOWEST_OF_THREE[within], _MIDDLE[within], bytes((place // _TWO_BYTES,)) * count


def _deltas(low: bytes, high: bytes = b"") -> set[int]:
    """Return what zigzag numbers of a byte, or two, each stand for."""
    zigzags = {a & 127 | b << 7 for a, b in set(zip(low, high, strict=True))} if high else set(low)
    return {(number >> 1) ^ -(number & 1) for number in zigzags}
