"""Signed varints of the record format: zigzag, then seven bits a byte, the lowest first.

Source: org.apache.kafka.common.utils.ByteUtils (writeVarint, writeVarlong).
"""

from kohort.protocol.errors import WireError

_TABLE_SIZE = 8192  # Varints of two bytes at most: nearly all lengths and deltas.


def _encode(zigzag: int) -> bytes:
    out = bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


# One byte, and two bytes, of which the first has the lower bits: ten times as fast as encoding each.
_ONE_BYTE = [bytes((low,)) for low in range(0, 128, 2)]
_TWO_BYTES = [bytes((low, high)) for high in range(1, 128) for low in range(128, 256, 2)]
VARINTS = (*_ONE_BYTE, *_TWO_BYTES)
"""The varint of each number below 8,192."""


def encode_varint(number: int) -> bytes:
    """Return the varint of a number of at most 64 bits: one to ten bytes."""
    if 0 <= number < _TABLE_SIZE:
        return VARINTS[number]
    return _encode(number << 1 if number >= 0 else (-number << 1) - 1)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position` and the position behind it. Raises: WireError, IndexError."""
    first = data[position]
    if first < 128:
        return (first >> 1) ^ -(first & 1), position + 1
    return read_varint_rest(data, position + 1, first)


def read_varint_rest(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return the number with the first byte `first`, and the position behind it.

    Raises: WireError for more than 64 bits, IndexError where the data ends.
    """
    byte = data[position]
    position += 1
    if byte < 128:
        zigzag = first & 127 | byte << 7
        return (zigzag >> 1) ^ -(zigzag & 1), position
    zigzag, shift = first & 127 | (byte & 127) << 7, 14
    while True:
        byte = data[position]
        position += 1
        zigzag |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise WireError("a variable length integer of more than ten bytes")
    if zigzag > 0xFFFFFFFFFFFFFFFF:
        raise WireError("a variable length integer of more than 64 bits")
    return (zigzag >> 1) ^ -(zigzag & 1), position
