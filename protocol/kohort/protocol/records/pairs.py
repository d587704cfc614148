"""Decodes only keys and values of a batch, to replay a log: a third of the cost of whole records."""

from kohort.protocol.errors import WireError
from kohort.protocol.records.header import BatchHeader
from kohort.protocol.records.varint import read_varint, read_varint_rest

Pair = tuple[bytes | None, bytes | None]


def read_pairs(payload: bytes, header: BatchHeader) -> list[Pair]:
    """Return key and value of each record in a decompressed payload.

    Raises: WireError if the records do not match the header.
    """
    pairs: list[Pair] = []
    try:
        position = _read(payload, header.record_count, pairs)
    except IndexError:
        raise WireError(f"the records of the batch at {header.base_offset} end early") from None
    if position != len(payload):
        raise WireError(f"{len(payload) - position} bytes follow the last record of a batch")
    return pairs


def _read(payload: bytes, count: int, pairs: list[Pair]) -> int:
    """Return the end of the last record. Varints of one byte are decoded inline.

    Raises: WireError; IndexError where the payload ends.
    """
    position, end = 0, len(payload)
    for _ in range(count):
        byte = payload[position]
        position += 1
        if byte < 128:
            size = (byte >> 1) ^ -(byte & 1)
        else:
            size, position = read_varint_rest(payload, position, byte)
        stop = position + size
        if size < 0 or stop > end:
            raise WireError(f"a record has {size} bytes, but {end - position} are left")
        position += 1  # The attributes, which are unused.
        while payload[position] > 127:
            position += 1
        position += 1
        while payload[position] > 127:
            position += 1
        byte = payload[position + 1]
        position += 2
        if byte < 128:
            size = (byte >> 1) ^ -(byte & 1)
        else:
            size, position = read_varint_rest(payload, position, byte)
        key: bytes | None = None
        if size >= 0:
            key = payload[position : position + size]
            position += size
        size, position = read_varint(payload, position)
        value: bytes | None = None
        if size >= 0:
            value = payload[position : position + size]
            position += size
        if position >= stop:  # The count of headers follows.
            raise WireError(f"a record is {position + 1 - stop} bytes longer than it says")
        pairs.append((key, value))
        position = stop
    return position
