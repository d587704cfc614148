"""Reads committed offsets out of a batch of `__consumer_offsets`: the hot path of the observer. Pure.

Nearly every record commits an offset of a partition that has been committed before. Its key is the same, byte
for byte, so that it is looked up and not decoded; of its value, the offset alone is read.
"""

import struct
from collections.abc import Callable
from typing import TypeVar

from kohort.protocol.records import BatchHeader
from kohort.protocol.records.varint import read_varint

T = TypeVar("T")

BEGINNING = struct.Struct(">hq")
"""A committed offset begins like this in each version of its record: the version, then the offset."""
_OFFSET = struct.Struct(">q").unpack_from
_VERSION_BYTES = 2


def known_commits(
    header: BatchHeader, data: bytes, find: Callable[[bytes], T | None]
) -> list[tuple[T, int, int]] | None:
    """Return of each record what `find` has for its key, the offset, and the time.

    None where a record is another one: its key is not known, it removes an offset, or it is unusual.
    The layout of a record: `kohort.protocol.records.decoding`.
    """
    base_ms = header.base_timestamp
    if header.has_log_append_time:
        return None
    found: list[tuple[T, int, int]] = []
    append = found.append
    position = 0
    try:
        for _ in range(header.record_count):
            byte = data[position]
            if byte < 128:  # The length of the record, and its attributes.
                end = position + 1 + (byte >> 1)
                position += 2
            elif (second := data[position + 1]) < 128:
                end = position + 2 + ((byte & 127 | second << 7) >> 1)
                position += 3
            else:
                return None
            at_ms, byte = base_ms, data[position]
            if byte >= 128:
                delta, position = read_varint(data, position)
                at_ms += delta
            else:
                position += 1
                if byte:
                    at_ms += byte >> 1 ^ -(byte & 1)
            while data[position] >= 128:  # The offset within the batch.
                position += 1
            byte = data[position + 1]
            if byte < 128:
                position += 2
                value = position + (byte >> 1)
            else:
                value = position + 3 + ((byte & 127 | data[position + 2] << 7) >> 1)
                position += 3
            known = find(data[position:value])
            byte = data[value]
            if known is None or byte & 1:
                return None
            if byte < 128:
                if byte >> 1 < BEGINNING.size:
                    return None
                append((known, _OFFSET(data, value + 1 + _VERSION_BYTES)[0], at_ms))
            elif data[value + 1] < 128:
                append((known, _OFFSET(data, value + 2 + _VERSION_BYTES)[0], at_ms))
            else:
                return None
            position = end
    except (IndexError, struct.error):
        return None
    return found if position == len(data) else None
