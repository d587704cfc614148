"""Reads committed offsets out of a batch of `__consumer_offsets`: the hot path of the observer. Pure.

Nearly every record commits an offset of a partition that has been committed before. Its key is the same, byte
for byte, so that it is looked up and not decoded; of its value, the offset alone is read.

A member that commits its partitions again and again writes batches of one layout: they differ in their
offsets and times alone. Such a batch is taken apart by one `struct` that was made for the layout.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Generic, TypeVar

from kohort.protocol.records import BatchHeader
from kohort.protocol.records.varint import read_varint

T = TypeVar("T")

BEGINNING = struct.Struct(">hq")
"""A committed offset begins like this in each version of its record: the version, then the offset."""
_OFFSET = struct.Struct(">q").unpack_from
_OFFSET_BYTES = 8
_VERSION_BYTES = 2
LAYOUT_RECORDS_MAX = 100_000
"""So many records have the layouts that are kept, at 200 to 300 bytes each."""


CommitsByTime = list[tuple[int, Iterable[tuple[T, int]]]]
"""The times of a batch, each with its commits in their order, to be read time by time.

A commit is what is known of the record's key, and the offset.
"""


class Commits(Generic[T]):
    """Finds the commits of batches, where `known` has something for the key of each.

    A caller that takes a key from `known`, or gives it another value, calls `forget`.
    """

    def __init__(self, known: Mapping[bytes, T]) -> None:
        self._known = known
        self.layouts: dict[bytes, _Layout[T] | tuple[int, int]] = {}
        self.layout_records = 0

    def forget(self) -> None:
        """Look all keys up again."""
        self.layouts.clear()
        self.layout_records = 0

    def of(self, header: BatchHeader, data: bytes) -> CommitsByTime[T] | None:
        """Return the commits of a batch.

        None where a record is another one: its key is not known, it removes an offset, or it is unusual.
        """
        first_key = _first_key(data)
        layout = self.layouts.get(first_key)
        if isinstance(layout, _Layout) and not header.has_log_append_time:
            found = layout.commits(header, data)
            if found is not None:
                return found
        commits = known_commits(header, data, self._known.get)
        if commits is None:
            return None
        if first_key in self._known:  # Else it is no key: the first record is an unusual one.
            self._keep(first_key, (header.record_count, len(data)), data)
        return [(at_ms, [each[:2] for each in commits]) for at_ms, commits in groupby(commits, itemgetter(2))]

    def _keep(self, first_key: bytes, shape: tuple[int, int], data: bytes) -> None:
        """Keep the layout of a batch whose shape comes for the second time in a row."""
        former = self.layouts.get(first_key)
        if isinstance(former, _Layout):
            self.layout_records -= former.shape[0]
        if former != shape:
            self.layouts[first_key] = shape
            return
        if self.layout_records + shape[0] > LAYOUT_RECORDS_MAX:
            self.forget()
        self.layouts[first_key] = _Layout(shape, data, self._known)
        self.layout_records += shape[0]


class _Layout(Generic[T]):
    """Where the offsets of a batch are, and all that has to be the same in another batch of this layout."""

    __slots__ = ("_constant", "_deltas", "_known", "_unpack", "shape")

    def __init__(self, shape: tuple[int, int], data: bytes, known: Mapping[bytes, T]) -> None:
        """Take apart a batch of known commits, of so many records and bytes."""
        self.shape = shape
        form, constant, deltas, begin = [">"], [], [], 0
        self._known: list[T] = []
        while begin < len(data):
            length, position = read_varint(data, begin)
            end = position + length
            delta, position = read_varint(data, position + 1)  # Behind the attributes.
            _, position = read_varint(data, position)
            size, position = read_varint(data, position)
            self._known.append(known[data[position : position + size]])
            _, position = read_varint(data, position + size)
            position += _VERSION_BYTES
            form.append(f"{position - begin}sq{end - position - _OFFSET_BYTES}x")
            constant.append(data[begin:position])
            deltas.append(delta)
            begin = end
        self._unpack: Callable[[bytes], tuple[Any, ...]] = struct.Struct("".join(form)).unpack
        self._constant = tuple(constant)
        self._deltas = [(delta, len([*those])) for delta, those in groupby(deltas)]

    def commits(self, header: BatchHeader, data: bytes) -> CommitsByTime[T] | None:
        """Return the commits of another batch, None where it has another layout."""
        if (header.record_count, len(data)) != self.shape:
            return None
        values = self._unpack(data)
        if values[::2] != self._constant:
            return None
        commits, base_ms = zip(self._known, values[1::2], strict=True), header.base_timestamp
        if len(self._deltas) == 1:  # A coordinator writes one time: nothing to divide.
            return [(base_ms + self._deltas[0][0], commits)]
        return [(base_ms + delta, islice(commits, count)) for delta, count in self._deltas]


def _first_key(data: bytes) -> bytes:
    """Return the key of the first record, or some other bytes where it is an unusual one."""
    try:
        # Behind length, attributes, two deltas of one byte, and the length of the key.
        position = 5 if data[0] < 128 else 6
        length = data[position - 1]
        if length >= 128:
            length = length & 127 | data[position] << 7
            position += 1
        return data[position : position + (length >> 1)]
    except IndexError:
        return b""


def known_commits(
    header: BatchHeader, data: bytes, find: Callable[[bytes], T | None]
) -> list[tuple[T, int, int]] | None:
    """Return the commits of a batch as `Commits.of` does, record by record.

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
            if byte & 1:  # A negative length.
                return None
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
            if byte & 1:
                return None
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
                begin, size = value + 1, byte >> 1
            elif (second := data[value + 1]) < 128:
                begin, size = value + 2, (byte & 127 | second << 7) >> 1
            else:
                return None
            if size < BEGINNING.size or begin + size >= end:  # The number of headers follows.
                return None
            append((known, _OFFSET(data, begin + _VERSION_BYTES)[0], at_ms))
            position = end
    except (IndexError, struct.error):
        return None
    return found if position == len(data) else None
