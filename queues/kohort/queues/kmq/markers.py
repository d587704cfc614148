"""The markers' bytes, to the letter those of softwaremill/kmq.

key          int32 partition, int64 offset, of the record in the message topic; big endian
start        0x01, int64: so many milliseconds after the marker's timestamp the record is due again
end          0x00

A marker is written to the partition of the markers topic that has the number of the record's. Sources:
MarkerKey, StartMarker, EndMarker and MarkerValueDeserializer of softwaremill/kmq.
"""

import struct
import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

_KEY = struct.Struct(">iq")
_START = struct.Struct(">bq")
_START_TYPE = 1
END = b"\x00"
pack_key = _KEY.pack
unpack_key = _KEY.unpack
KEY_SIZE = _KEY.size


def pack_keys(partition: int, offsets: Sequence[int]) -> bytes:
    """Return the keys of a partition's records, one after the other."""
    numbers = array("q", offsets)
    if sys.byteorder == "little":
        numbers.byteswap()
    columns = numbers.tobytes()
    keys = bytearray(pack_key(partition, offsets[0]) * len(offsets))
    for number in range(numbers.itemsize):
        column = columns[number :: numbers.itemsize]
        if column.lstrip(column[:1]):  # Otherwise the first key has what all have.
            keys[number - numbers.itemsize + KEY_SIZE :: KEY_SIZE] = column
    return bytes(keys)


class MarkerKey(NamedTuple):
    """The place of a record in the message topic."""

    partition: int
    offset: int

    def encode(self) -> bytes:
        """Return the marker's key."""
        return _KEY.pack(self.partition, self.offset)


class Start(NamedTuple):
    """The record was taken, and is due again so long after the marker's timestamp."""

    redeliver_after_ms: int

    def encode(self) -> bytes:
        """Return the marker's value."""
        return _START.pack(_START_TYPE, self.redeliver_after_ms)


class MarkerError(ValueError):
    """What stands in the markers topic is no marker."""


def decode_key(data: bytes | None) -> MarkerKey:
    """Return the place that a marker's key names. Raises: MarkerError."""
    if data is None or len(data) < _KEY.size:
        raise MarkerError(f"a marker's key has {_KEY.size} bytes, not {data!r}")
    return MarkerKey(*_KEY.unpack_from(data))


def decode_value(data: bytes | None) -> Start | None:
    """Return the start that a marker's value says, None for an end. Raises: MarkerError.

    Whatever does not begin with 1 is an end, as the original reads it.
    """
    if not data:
        raise MarkerError("a marker without a value says neither start nor end")
    if data[0] != _START_TYPE:
        return None
    if len(data) < _START.size:
        raise MarkerError(f"a start marker has {_START.size} bytes, not {len(data)}")
    return Start(_START.unpack_from(data)[1])
