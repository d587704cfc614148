"""The headers of all batches in a record set at once. Needs numpy, and is imported only when used.

    table = read_batches(records)
    table.base_offsets, table.next_offsets, table.positions ...

The lengths have to be followed one by one; every other field is read for all batches together.
"""

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kohort.client.batches import Aborted, hidden_batches
from kohort.protocol.checksum import crc32c
from kohort.protocol.errors import WireError
from kohort.protocol.records import HEADER_BYTES, BatchHeader, read_header
from kohort.protocol.records.header import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD_BYTES,
    MAGIC,
)

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Numpy has the letters of `struct` for numbers.
_FIELDS = np.dtype(
    [
        (name, f">{letter}")
        for name, letter in zip(BatchHeader.__struct_fields__, HEADER.format[1:], strict=True)
    ]
)
_PLACES = np.arange(HEADER_BYTES)
_LENGTH = struct.Struct(">8xi")
_LEAST_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class BatchTable:
    """Whole consecutive batches of a record set; each column has an entry for each batch."""

    records: memoryview
    positions: Int64s
    stops: Int64s
    base_offsets: Int64s
    next_offsets: Int64s
    record_counts: Int64s
    base_timestamps: Int64s
    max_timestamps: Int64s
    leader_epochs: Int64s
    attributes: Int64s
    crcs: Int64s

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, wanted: slice | Int64s) -> "BatchTable":
        columns = (getattr(self, name)[wanted] for name in _COLUMNS)
        return BatchTable(self.records, *columns)

    @property
    def size_bytes(self) -> int:
        """The bytes of the batches, from the start of the record set."""
        return int(self.stops[-1]) if len(self) else 0

    @property
    def are_control(self) -> Bools:
        """Which hold markers for the broker."""
        return np.asarray(self.attributes & CONTROL_FLAG, np.bool_)

    @property
    def have_append_time(self) -> Bools:
        """Whose records all have the time at which the broker appended them."""
        return np.asarray(self.attributes & LOG_APPEND_TIME_FLAG, np.bool_)

    @property
    def codecs(self) -> Int64s:
        """The numbers of the codecs, which may be unknown."""
        return self.attributes & COMPRESSION_MASK

    def sound_count(self) -> int:
        """Return the number of batches before the first with a wrong CRC."""
        records, crc_of = self.records, crc32c
        covered = (self.positions + CRC_COVERS_FROM).tolist()
        for nth, (begin, stop, crc) in enumerate(
            zip(covered, self.stops.tolist(), self.crcs.tolist(), strict=True)
        ):
            if crc_of(records[begin:stop]) != crc:
                return nth
        return len(self)

    def hidden(self, aborted: Aborted | None) -> Bools:
        """Return which batches a reader does not see: markers, empty batches, and aborted ones.

        `aborted` are the aborted transactions in the answer to a read_committed fetch; None reads
        uncommitted.
        """
        hidden: Bools = self.are_control | (self.record_counts == 0)
        if aborted:
            hidden |= np.fromiter(hidden_batches(self.records, self.positions.tolist(), aborted), np.bool_)
        return hidden


_COLUMNS = tuple(name for name in BatchTable.__slots__ if name != "records")


def read_batches(records: memoryview) -> BatchTable:
    """Return the whole batches up to the first that is truncated or not of version 2."""
    table = _table(records, *_follow_lengths(records))
    senseless = np.flatnonzero((table.record_counts < 0) | (table.next_offsets <= table.base_offsets))
    return table[: senseless[0]] if len(senseless) else table


def check_end(table: BatchTable) -> None:
    """Raise WireError if the bytes after the last batch are not a truncated batch, as fetches end."""
    end = table.size_bytes
    if end + HEADER_BYTES > len(table.records):
        return
    header = read_header(table.records, end)
    if end + header.size_bytes <= len(table.records):
        raise WireError(
            f"the batch at offset {header.base_offset} has {header.record_count} records up to"
            f" {header.last_offset}"
        )


def _follow_lengths(records: memoryview) -> tuple[list[int], int]:
    """Return where batches start according to their lengths, and the end position of the last."""
    positions: list[int] = []
    position, last, end = 0, len(records) - HEADER_BYTES, len(records)
    length_at, found = _LENGTH.unpack_from, positions.append
    while position <= last:
        (length,) = length_at(records, position)
        behind = position + LOG_OVERHEAD_BYTES + length
        if length < _LEAST_LENGTH or behind > end:
            break
        found(position)
        position = behind
    return positions, position


def _table(records: memoryview, positions: list[int], behind: int) -> BatchTable:
    """Return the fields of the batches at these positions, up to the first with another magic."""
    begins = np.array(positions, np.int64)
    raw = np.frombuffer(records, np.uint8)
    fields = raw[begins[:, None] + _PLACES].reshape(-1).view(_FIELDS)
    foreign = np.flatnonzero(fields["magic"] != MAGIC)
    if len(foreign):
        behind = positions[foreign[0]]
        begins, fields = begins[: foreign[0]], fields[: foreign[0]]

    def column(name: str) -> Int64s:
        return np.asarray(fields[name], np.int64)

    base_offsets = column("base_offset")
    return BatchTable(
        records=records,
        positions=begins,
        stops=np.append(begins[1:], behind) if len(begins) else begins,
        base_offsets=base_offsets,
        next_offsets=base_offsets + column("last_offset_delta") + 1,
        record_counts=column("record_count"),
        base_timestamps=column("base_timestamp"),
        max_timestamps=column("max_timestamp"),
        leader_epochs=column("partition_leader_epoch"),
        attributes=column("attributes"),
        crcs=column("crc"),
    )
