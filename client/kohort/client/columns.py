"""Record sets decoded into columns, a whole fetch at once. Needs pyarrow and numpy: imported only when used.

    for columns in decode_columns(records, fetch_offset=offset):
        columns.offsets, columns.values.data, columns.values.offsets ...

The start of a record is known only after the length of the previous one was read, so that is a loop;
runs of records of one size are found in one step. All else is read for all records together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kohort.client.batch_table import BatchTable, Bools, Int64s, check_end, read_batches
from kohort.client.batches import Aborted, plain_records
from kohort.protocol.errors import WireError
from kohort.protocol.records import HEADER_BYTES, Buffer, read_header

Int32s = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

MAX_CHUNK_BYTES = 32 << 20
CREATE_TIME, LOG_APPEND_TIME = 0, 1

_RUN_LEAST = 256  # Records in a batch, or read one by one since the last try, before a run is searched.
_RUN_SHORT = 16  # A run below this is no gain: the next try waits longer, up to _PATIENCE_MOST records.
_PATIENCE_MOST = 1 << 16
_TOGETHER_LEAST = 16  # Batches that are read together, while so many have records left.
_NO_BYTES = np.zeros(0, np.uint8)


def _steps() -> npt.NDArray[np.int16]:
    """Return how far it is from a record to the next by its first two bytes, the first as the low one.

    0 where these are not the whole length, or the length is below zero.
    """
    first, second = np.arange(1 << 16) & 255, np.arange(1 << 16) >> 8
    has_second = first > 127
    zigzag = np.where(has_second, first & 127 | second << 7, first)
    is_known = (zigzag & 1 == 0) & ~(has_second & (second > 127))
    return np.asarray((1 + has_second + (zigzag >> 1)) * is_known, np.int16)


_STEPS = _steps()


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Values in Arrow's layout: value k is `data[offsets[k]:offsets[k + 1]]`, none where not `valid[k]`."""

    offsets: Int32s
    data: Bytes
    valid: Bools | None  # None: there is no null.

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def to_list(self) -> list[bytes | None]:
        """Return the values as Python has them."""
        data, offsets = self.data.tobytes(), self.offsets.tolist()
        values: list[bytes | None] = [data[a:b] for a, b in pairwise(offsets)]
        if self.valid is not None:
            for each in np.flatnonzero(~self.valid).tolist():
                values[each] = None
        return values


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records that follow one another in a partition.

    The headers of record k are those from `header_offsets[k]` to `header_offsets[k + 1]`; their names are
    valid UTF-8. `next_offset` is where reading continues, which may be after the last record's offset + 1;
    `leader_epoch` is that of the last batch, -1 if there is none.
    """

    offsets: Int64s
    timestamps_ms: Int64s
    timestamp_types: Int32s  # CREATE_TIME or LOG_APPEND_TIME
    keys: BinaryColumn
    values: BinaryColumn
    header_offsets: Int32s
    header_names: BinaryColumn
    header_values: BinaryColumn
    next_offset: int
    leader_epoch: int

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        """What keys and values take, headers aside."""
        return self.keys.data.nbytes + self.values.data.nbytes


def decode_columns(
    records: Buffer,
    *,
    fetch_offset: int = 0,
    check_crcs: bool = True,
    aborted: Aborted | None = None,
    max_chunk_bytes: int = MAX_CHUNK_BYTES,
) -> Iterator[RecordColumns]:
    """Yield the records of a fetch from `fetch_offset` on, in chunks of some plain megabytes.

    A chunk may be empty: markers and aborted transactions move `next_offset` too. `aborted` are those of a
    read_committed fetch, None reads uncommitted. Raises: WireError for unreadable records, after all
    earlier ones were yielded.
    """
    table = read_batches(memoryview(records))
    yield from decode_batches(
        table,
        fetch_offset=fetch_offset,
        check_crcs=check_crcs,
        aborted=aborted,
        max_chunk_bytes=max_chunk_bytes,
    )
    check_end(table)


def decode_batches(
    table: BatchTable,
    *,
    fetch_offset: int,
    check_crcs: bool,
    aborted: Aborted | None,
    max_chunk_bytes: int,
) -> Iterator[RecordColumns]:
    """Yield the records of batches, as `decode_columns` does. Raises: WireError."""
    sound = table[: table.sound_count()] if check_crcs else table
    is_seen = ~sound.hidden(aborted) & (sound.next_offsets > fetch_offset)
    first, next_offset = 0, fetch_offset
    while first < len(sound):
        plain = _plain(sound, is_seen, first, max_chunk_bytes)
        next_offset = max(next_offset, int(sound.next_offsets[first : plain.stop].max()))
        seen = sound[np.flatnonzero(is_seen[first : plain.stop]) + first]
        epoch = int(sound.leader_epochs[plain.stop - 1])
        yield _Chunk(seen, plain, fetch_offset, next_offset, epoch).decode()
        first, fetch_offset = plain.stop, next_offset
    if len(sound) < len(table):
        offset = int(table.base_offsets[len(sound)])
        raise WireError(f"the batch at offset {offset} does not have the CRC that it says")


@dataclass(frozen=True, slots=True)
class _Plain:
    """The records of some batches: those of batch k are `data[begins[k]:ends[k]]`."""

    data: Buffer
    begins: Int64s
    ends: Int64s
    stop: int  # The number of the first batch that is not among them.


def _plain(table: BatchTable, is_seen: Bools, first: int, most_bytes: int) -> _Plain:
    """Return the records of the batches from the one with the number `first` on. Raises: WireError."""
    if (table.codecs[first:] * is_seen[first:]).any():
        return _decompressed(table, is_seen, first, most_bytes)
    sizes = (table.stops[first:] - table.positions[first:] - HEADER_BYTES) * is_seen[first:]
    stop = min(len(table), first + 1 + int(np.searchsorted(np.cumsum(sizes), most_bytes)))
    begin = int(table.positions[first])
    among = np.flatnonzero(is_seen[first:stop]) + first
    return _Plain(
        table.records[begin : int(table.stops[stop - 1])],  # Their headers as well: nothing is moved.
        table.positions[among] + (HEADER_BYTES - begin),
        table.stops[among] - begin,
        stop,
    )


def _decompressed(table: BatchTable, is_seen: Bools, first: int, most_bytes: int) -> _Plain:
    pieces: list[Buffer] = []
    size, stop = 0, first
    while stop < len(table) and size < most_bytes:
        if is_seen[stop]:
            begin, end = int(table.positions[stop]), int(table.stops[stop])
            header = read_header(table.records, begin)
            pieces.append(plain_records(header, table.records[begin + HEADER_BYTES : end]))
            size += len(pieces[-1])
        stop += 1
    ends = np.cumsum([len(each) for each in pieces], dtype=np.int64)
    return _Plain(b"".join(pieces), np.append(np.zeros(1, np.int64), ends)[:-1], ends, stop)


class _Chunk:
    """Batches that become columns together."""

    def __init__(
        self, batches: BatchTable, plain: _Plain, fetch_offset: int, next_offset: int, leader_epoch: int
    ) -> None:
        self._batches = batches
        self._plain = plain
        self._raw = np.frombuffer(plain.data, np.uint8)
        self._fetch_offset = fetch_offset
        self._next_offset = next_offset
        self._leader_epoch = leader_epoch

    def decode(self) -> RecordColumns:
        """Return the columns. Raises: WireError."""
        starts = self._starts()
        try:
            return self._read(starts)
        except IndexError:
            raise WireError(f"records behind offset {self._fetch_offset} end early") from None

    def _starts(self) -> Int64s:
        """Return where the records start. Raises: WireError."""
        data, counts, ends = self._plain.data, self._batches.record_counts, self._plain.ends
        if counts.sum() > len(data):
            raise WireError(f"batches behind offset {self._fetch_offset} have more records than bytes")
        slots = np.append(np.zeros(1, np.int64), np.cumsum(counts))
        found = np.zeros(int(slots[-1]), np.int64)
        try:
            done, positions = _walk_together(self._raw, self._plain.begins, counts, slots[:-1], found)
            for nth in np.flatnonzero(done < counts).tolist():
                starts: list[Int64s] = []
                begin, left = int(positions[nth]), int(counts[nth] - done[nth])
                positions[nth] = begin + _walk(bytes(data[begin : int(ends[nth])]), left, starts)
                found[slots[nth] + done[nth] : slots[nth + 1]] = begin + np.concatenate(starts)
        except IndexError:
            raise WireError(f"the records of batches behind offset {self._fetch_offset} end early") from None
        if (positions != ends).any():
            wrong = int(self._batches.base_offsets[int(np.argmax(positions != ends))])
            raise WireError(f"the batch at {wrong} is not as long as its records")
        return found

    def _read(self, starts: Int64s) -> RecordColumns:
        raw, batches = self._raw, self._batches
        counts = batches.record_counts
        sizes, position = _varints(raw, starts)
        stops = position + sizes
        timestamps, position = _varints(raw, position + 1)
        offsets, position = _varints(raw, position)
        timestamps += np.repeat(batches.base_timestamps, counts)
        offsets += np.repeat(batches.base_offsets, counts)
        append_times = np.repeat(batches.have_append_time, counts)
        if append_times.any():
            timestamps = np.where(append_times, np.repeat(batches.max_timestamps, counts), timestamps)
        keys = _Spans(*_varints(raw, position))
        values = _Spans(*_varints(raw, keys.stops()))
        headers, position = _headers(raw, values.stops())
        if (sizes < 0).any() or (position != stops).any():
            raise WireError(f"a record behind offset {self._fetch_offset} is not as long as it says")
        wanted = slice(None)
        if len(offsets) and offsets[0] < self._fetch_offset:
            wanted = slice(int(np.searchsorted(offsets, self._fetch_offset)), None)
        header_offsets = headers.offsets[wanted.start :]
        of_wanted = slice(int(header_offsets[0]), None)
        return RecordColumns(
            offsets=offsets[wanted],
            timestamps_ms=timestamps[wanted],
            timestamp_types=append_times[wanted].astype(np.int32),
            keys=keys.gather(raw, wanted),
            values=values.gather(raw, wanted),
            header_offsets=(header_offsets - header_offsets[0]).astype(np.int32),
            header_names=_valid_utf8(headers.names.gather(raw, of_wanted)),
            header_values=headers.values.gather(raw, of_wanted),
            next_offset=self._next_offset,
            leader_epoch=self._leader_epoch,
        )


def _walk_together(
    raw: Bytes, begins: Int64s, counts: Int64s, slots: Int64s, found: Int64s
) -> tuple[Int64s, Int64s]:
    """Walk through many batches at once, the nth records of all in the nth step.

    Batch k's starts go to `found` from `slots[k]`. Returns how many records of each batch were read,
    not all of them if few batches had so many, and the positions after them. Raises: WireError,
    IndexError.
    """
    order = np.argsort(-counts, kind="stable")
    most = int(counts[order[_TOGETHER_LEAST - 1]]) if len(counts) >= _TOGETHER_LEAST else 0
    positions, slots = begins[order], slots[order]
    with_more = len(counts) - np.searchsorted(np.sort(counts), np.arange(most), side="right")
    for step, going in enumerate(with_more.tolist()):
        position = positions[:going]
        found[slots[:going] + step] = position
        start = raw.take(position + 1, mode="clip").astype(np.uint16) << 8 | raw.take(position)
        steps = _STEPS.take(start)
        position += steps
        if not steps.all():
            others = np.flatnonzero(steps == 0)
            sizes, behind = _varints(raw, position[others])
            position[others] = behind + sizes
    done, unsorted = np.zeros_like(counts), np.zeros_like(positions)
    done[order], unsorted[order] = np.minimum(counts[order], most), positions
    return done, unsorted


def _walk(data: bytes, count: int, starts: list[Int64s]) -> int:
    """Add where each of `count` records starts; return the position after the last.

    A damaged length gives a wrong end, or an error of the reader of the lengths. Raises:
    WireError, IndexError.
    """
    position = 0
    patience = _RUN_LEAST
    while count > 0:
        if count >= _RUN_LEAST:
            run = _run(data, position, count)
            starts.append(run)
            count -= len(run)
            position = _behind(data, int(run[-1]))
            if len(run) >= _RUN_SHORT:
                patience = _RUN_LEAST
                continue
            patience = min(2 * patience, _PATIENCE_MOST)
        found: list[int] = []
        append = found.append
        for _ in range(min(count, patience)):
            append(position)
            first = data[position]
            if first < 128:
                position += 1 + (first >> 1)
            else:
                second = data[position + 1]
                if second < 128:
                    position += 2 + ((first & 127 | second << 7) >> 1)
                else:
                    position = _behind(data, position)
        count -= len(found)
        starts.append(np.array(found, np.int64))
    return position


def _behind(data: bytes, position: int) -> int:
    """Return the position after the record at `position`. Raises: WireError, IndexError."""
    zigzag = shift = 0
    while True:
        byte = data[position]
        position += 1
        zigzag |= (byte & 127) << shift
        if byte < 128:
            return position + (zigzag >> 1)
        shift += 7
        if shift > 28:
            raise WireError("a record's length of more than five bytes")


def _run(data: bytes, position: int, count: int) -> Int64s:
    """Return where the record at `position`, and those after it with the same length, start.

    The record after the first starts at its end. If it has the same length, the
    next one starts at the same distance, and so on up to the first that differs: nothing is guessed.
    """
    step = _behind(data, position) - position
    most = min(count, (len(data) - position) // step)
    if most < 2:
        return np.array([position], np.int64)
    rows = np.frombuffer(data, np.uint8, most * step, position).reshape(most, step)
    width = 1
    while data[position + width - 1] >= 128:
        width += 1
    differs = (rows[:, :width] != rows[0, :width]).any(axis=1)
    length = int(differs.argmax()) or most
    return position + step * np.arange(length, dtype=np.int64)


def _varints(raw: Bytes, position: Int64s) -> tuple[Int64s, Int64s]:
    """Return the numbers at these positions and the positions after them.

    Most have one byte or two: these are read for all, and longer ones only where needed.
    Raises: WireError for more than ten bytes, IndexError after the end.
    """
    first = raw.take(position)
    behind = position + 1
    has_second = first >> 7
    if not has_second.any():
        return ((first >> 1) ^ -(first & 1)).view(np.int8).astype(np.int64), behind
    second = raw.take(behind, mode="clip") & -has_second
    low = second.astype(np.uint16) << 7 | first & 127
    behind += has_second
    longer = np.flatnonzero(second >> 7)
    if not len(longer):
        return ((low >> 1) ^ -(low & 1)).view(np.int16).astype(np.int64), behind
    zigzag = low.astype(np.uint64) & np.uint64(0x3FFF)
    shift, at = 14, behind[longer]
    while len(longer):
        if shift > 63:
            raise WireError("a variable length integer of more than ten bytes")
        byte = raw.take(at)
        zigzag[longer] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        at += 1
        behind[longer] = at
        more = byte > 127
        longer, at = longer[more], at[more]
        shift += 7
    return ((zigzag >> np.uint64(1)) ^ (np.uint64(0) - (zigzag & np.uint64(1)))).view(np.int64), behind


class _Spans:
    """The location of values in the records: start and size, a negative size for null."""

    __slots__ = ("_begins", "_sizes")

    def __init__(self, sizes: Int64s, begins: Int64s) -> None:
        self._sizes = sizes
        self._begins = begins

    def stops(self) -> Int64s:
        """Return the end positions of the values."""
        return self._begins + np.maximum(self._sizes, 0)

    def gather(self, raw: Bytes, wanted: slice) -> BinaryColumn:
        """Return the values, moved together. Raises: WireError when they overlap or are not within `raw`."""
        begins, sizes = self._begins[wanted], self._sizes[wanted]
        nulls = sizes < 0
        has_nulls = bool(nulls.any())
        edges = np.empty(2 * len(begins), np.int64)  # Of a value, of the bytes between it and the next, ...
        edges[::2] = begins
        edges[1::2] = self.stops()[wanted]
        if len(edges) and (edges[0] < 0 or edges[-1] > len(raw) or (edges[1:] < edges[:-1]).any()):
            raise WireError("a value is longer than the batch that it is in")
        return _gathered(raw, edges, ~nulls if has_nulls else None)


def _gathered(raw: Bytes, edges: Int64s, valid: Bools | None) -> BinaryColumn:
    """Return every other one of the values between these edges, which Arrow moves faster than numpy."""
    if not len(edges):
        return BinaryColumn(np.zeros(1, np.int32), _NO_BYTES, valid)
    between = pa.Array.from_buffers(
        pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(raw)]
    )
    taken = between.take(pa.array(np.arange(0, len(edges), 2)))
    _, offsets, data = taken.buffers()
    count = len(taken) + 1
    found = np.frombuffer(offsets, np.int64, count).astype(np.int32)
    return BinaryColumn(
        found, np.frombuffer(data, np.uint8, int(found[-1])) if found[-1] else _NO_BYTES, valid
    )


@dataclass(frozen=True, slots=True)
class _Headers:
    offsets: Int64s
    names: _Spans
    values: _Spans


def _headers(raw: Bytes, position: Int64s) -> tuple[_Headers, Int64s]:
    """Return the headers of all records, read as all first ones, all second ones ..., and the end
    positions."""
    counts, position = _varints(raw, position)
    total = int(counts.sum()) if len(counts) else 0
    if len(counts) and (counts.min() < 0 or counts.max() > len(raw) or total > len(raw)):
        raise WireError("a record with more headers than it has room for, or less than none")
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    places = tuple(np.zeros(total, np.int64) for _ in range(4))
    name_sizes, name_begins, value_sizes, value_begins = places
    for nth in range(int(counts.max()) if total else 0):
        rows = np.flatnonzero(counts > nth)
        slots = offsets[rows] + nth
        sizes, begins = _varints(raw, position[rows])
        if sizes.min() < 0:
            raise WireError("a record header without a name")
        name_sizes[slots], name_begins[slots] = sizes, begins
        sizes, begins = _varints(raw, begins + sizes)
        value_sizes[slots], value_begins[slots] = sizes, begins
        position[rows] = begins + np.maximum(sizes, 0)
    return _Headers(offsets, _Spans(name_sizes, name_begins), _Spans(value_sizes, value_begins)), position


def _valid_utf8(names: BinaryColumn) -> BinaryColumn:
    """Return the names with a replacement for invalid UTF-8, as Java's String has it."""
    if not (names.data & 128).any():
        return names
    mended = [(each or b"").decode("utf-8", "replace").encode() for each in names.to_list()]
    offsets = np.cumsum([0, *map(len, mended)]).astype(np.int32)
    return BinaryColumn(offsets, np.frombuffer(b"".join(mended), np.uint8), None)
