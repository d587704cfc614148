"""Record sets decoded into columns, a whole fetch at once. Needs numpy, and is imported only when used.

    for columns in decode_columns(records, fetch_offset=offset):
        columns.offsets, columns.values.data, columns.values.offsets ...

Where a record begins is known only when the length of the one before has been read, so that is a walk;
runs of records of one size are walked in one step. All else is read for all records together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kohort.client.batches import Aborted, plain_records, visible_batches
from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader, Buffer, Compression

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

MAX_CHUNK_BYTES = 32 << 20
CREATE_TIME, LOG_APPEND_TIME = 0, 1

_RUN_LEAST = 256  # Records in a batch, or walked one by one since the last try, before a run is looked for.
_RUN_SHORT = 16  # A run below this is no gain: the next try waits longer, up to _PATIENCE_MOST records.
_PATIENCE_MOST = 1 << 16
_TOGETHER_LEAST = 16  # Batches that are walked through together, as long as so many have records left.
_BY_INDEX_BYTES = 24  # Below this mean size, an index of every byte is faster than a slice of every value.
_NO_BYTES = np.zeros(0, np.uint8)


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
    valid UTF-8. `next_offset` is where reading goes on, which may lie behind the last record's offset + 1;
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

    A chunk may be empty: markers and aborted transactions move `next_offset` on, too. `aborted` is what a
    read_committed fetch was told, None reads uncommitted. Raises: WireError for what can't be read.
    """
    chunk = _Chunk(fetch_offset)
    for header, payload in visible_batches(records, check_crcs=check_crcs, aborted=aborted):
        if payload is not None and header.last_offset >= fetch_offset:
            chunk.add(header, payload)
        chunk.pass_by(header)
        if chunk.size_bytes >= max_chunk_bytes:
            yield chunk.decode()
            chunk = _Chunk(chunk.next_offset)
    if chunk.seen:
        yield chunk.decode()


class _Chunk:
    """Batches on their way to become columns together."""

    def __init__(self, fetch_offset: int) -> None:
        self.next_offset = self._fetch_offset = fetch_offset
        self.size_bytes = 0
        self.seen = False
        self._leader_epoch = -1
        self._headers: list[BatchHeader] = []
        self._payloads: list[memoryview | bytes] = []

    def add(self, header: BatchHeader, payload: memoryview) -> None:
        """Take the batch's records in."""
        plain = payload if header.compression is Compression.NONE else plain_records(header, payload)
        self._headers.append(header)
        self._payloads.append(plain)
        self.size_bytes += len(plain)

    def pass_by(self, header: BatchHeader) -> None:
        """Count the batch as read."""
        self.next_offset = max(self.next_offset, header.next_offset)
        self._leader_epoch = header.partition_leader_epoch
        self.seen = True

    def decode(self) -> RecordColumns:
        """Return the columns. Raises: WireError."""
        data = b"".join(self._payloads)
        starts = self._starts(data)
        batches = _per_record(self._headers)
        try:
            return self._read(data, starts, batches)
        except IndexError:
            raise WireError(f"records behind offset {self._fetch_offset} end early") from None

    def _starts(self, data: bytes) -> Int64s:
        counts = np.array([each.record_count for each in self._headers], np.int64)
        ends = np.cumsum([len(each) for each in self._payloads], dtype=np.int64)
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        slots = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        found = np.zeros(int(slots[-1]), np.int64) if counts.sum() <= len(data) else None
        if found is None:
            raise WireError(f"batches behind offset {self._fetch_offset} have more records than bytes")
        try:
            done, positions = _walk_together(np.frombuffer(data, np.uint8), begins, counts, slots[:-1], found)
            for nth in np.flatnonzero(done < counts).tolist():
                starts: list[Int64s] = []
                left = int(counts[nth] - done[nth])
                positions[nth] = _walk(data, int(positions[nth]), int(ends[nth]), left, starts)
                found[slots[nth] + done[nth] : slots[nth + 1]] = np.concatenate(starts)
        except IndexError:
            raise WireError(f"the records of batches behind offset {self._fetch_offset} end early") from None
        if (positions != ends).any():
            wrong = self._headers[int(np.flatnonzero(positions != ends)[0])]
            raise WireError(f"the batch at {wrong.base_offset} is not as long as its records")
        return found

    def _read(self, data: bytes, starts: Int64s, batches: "_Batches") -> RecordColumns:
        raw = np.frombuffer(data, np.uint8)
        sizes, position = _varints(raw, starts)
        stops = position + sizes
        timestamps, position = _varints(raw, position + 1)
        offsets, position = _varints(raw, position)
        timestamps += batches.base_timestamps
        offsets += batches.base_offsets
        if batches.append_times.any():
            timestamps = np.where(batches.append_times, batches.max_timestamps, timestamps)
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
            timestamp_types=batches.append_times[wanted].astype(np.int32),
            keys=keys.gather(data, raw, wanted),
            values=values.gather(data, raw, wanted),
            header_offsets=(header_offsets - header_offsets[0]).astype(np.int32),
            header_names=_valid_utf8(headers.names.gather(data, raw, of_wanted)),
            header_values=headers.values.gather(data, raw, of_wanted),
            next_offset=self.next_offset,
            leader_epoch=self._leader_epoch,
        )


def _walk_together(
    raw: Bytes, begins: Int64s, counts: Int64s, slots: Int64s, found: Int64s
) -> tuple[Int64s, Int64s]:
    """Walk through many batches at once, the nth records of all in the nth step.

    Batch k's starts go to `found` from `slots[k]` on. Returns how many records of each batch were passed,
    not all of them where few batches had so many, and the positions behind them. Raises: WireError,
    IndexError.
    """
    order = np.argsort(-counts, kind="stable")
    most = int(counts[order[_TOGETHER_LEAST - 1]]) if len(counts) >= _TOGETHER_LEAST else 0
    positions, slots = begins[order], slots[order]
    with_more = len(counts) - np.searchsorted(np.sort(counts), np.arange(most), side="right")
    for step, going in enumerate(with_more.tolist()):
        position = positions[:going]
        found[slots[:going] + step] = position
        first, second = raw[position], raw[position + 1]  # No record is shorter than two bytes.
        longer = first >= 128
        zigzag = np.where(longer, first & 127 | second.astype(np.int64) << 7, first)
        behind = position + 1 + longer + (zigzag >> 1)
        longest = np.flatnonzero(longer & (second >= 128))
        if len(longest):
            sizes, stops = _varints(raw, position[longest])
            behind[longest] = stops + sizes
        positions[:going] = behind
    done, unsorted = np.zeros_like(counts), np.zeros_like(positions)
    done[order], unsorted[order] = np.minimum(counts[order], most), positions
    return done, unsorted


def _walk(data: bytes, position: int, end: int, count: int, starts: list[Int64s]) -> int:
    """Add where each of `count` records begins; return the position behind the last.

    A length that is damaged leads to a wrong end, or to what the reader of the lengths finds. Raises:
    WireError, IndexError.
    """
    patience = _RUN_LEAST
    while count > 0:
        if count >= _RUN_LEAST:
            run = _run(data, position, end, count)
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
    """Return the position behind the record at `position`. Raises: WireError, IndexError."""
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


def _run(data: bytes, position: int, end: int, count: int) -> Int64s:
    """Return where the record at `position`, and those behind it of the same length, begin.

    The record behind the first begins where that one ends. If the bytes there are the same length, the
    next lies as far on, and so forth up to the first that differs: nothing is guessed.
    """
    step = _behind(data, position) - position
    most = min(count, (end - position) // step)
    if most < 2:
        return np.array([position], np.int64)
    rows = np.frombuffer(data, np.uint8, most * step, position).reshape(most, step)
    width = 1
    while data[position + width - 1] >= 128:
        width += 1
    differs = (rows[:, :width] != rows[0, :width]).any(axis=1)
    length = int(differs.argmax()) or most
    return position + step * np.arange(length, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Batches:
    """What the batches' headers say, once for each of their records."""

    base_offsets: Int64s
    base_timestamps: Int64s
    max_timestamps: Int64s
    append_times: Bools


def _per_record(headers: list[BatchHeader]) -> _Batches:
    counts = np.array([each.record_count for each in headers], np.int64)

    def column(values: list[int]) -> Int64s:
        return np.repeat(np.array(values, np.int64), counts)

    return _Batches(
        column([each.base_offset for each in headers]),
        column([each.base_timestamp for each in headers]),
        column([each.max_timestamp for each in headers]),
        column([each.has_log_append_time for each in headers]).astype(np.bool_),
    )


def _varints(raw: Bytes, position: Int64s) -> tuple[Int64s, Int64s]:
    """Return the numbers at these positions and the positions behind them.

    Raises: WireError for more than ten bytes, IndexError behind the end.
    """
    first = raw[position]
    longer = np.flatnonzero(first & 128)
    zigzag = first.astype(np.uint64)
    position = position + 1
    if len(longer):
        zigzag &= np.uint64(127)
        shift = 7
        while len(longer):
            if shift > 63:
                raise WireError("a variable length integer of more than ten bytes")
            byte = raw[position[longer]]
            zigzag[longer] |= (byte & np.uint8(127)).astype(np.uint64) << np.uint64(shift)
            position[longer] += 1
            longer = longer[byte >= 128]
            shift += 7
    signs = np.uint64(0) - (zigzag & np.uint64(1))
    return ((zigzag >> np.uint64(1)) ^ signs).view(np.int64), position


class _Spans:
    """Where values lie in the records: begin and size, the size below zero for null."""

    __slots__ = ("_begins", "_sizes")

    def __init__(self, sizes: Int64s, begins: Int64s) -> None:
        self._sizes = sizes
        self._begins = begins

    def stops(self) -> Int64s:
        """Return the positions behind the values."""
        return self._begins + np.maximum(self._sizes, 0)

    def gather(self, data: bytes, raw: Bytes, wanted: slice) -> BinaryColumn:
        """Return the values, moved together. Raises: WireError when they are not within `data`."""
        begins, sizes = self._begins[wanted], self._sizes[wanted]
        nulls = sizes < 0
        has_nulls = bool(nulls.any())
        lengths = np.where(nulls, 0, sizes) if has_nulls else sizes
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if len(lengths) and (lengths.max() > len(data) or offsets[-1] > len(data)):
            raise WireError("a value is longer than the batch that it is in")
        return BinaryColumn(
            offsets.astype(np.int32),
            _gathered(data, raw, begins, lengths, offsets),
            ~nulls if has_nulls else None,
        )


def _gathered(data: bytes, raw: Bytes, begins: Int64s, lengths: Int64s, offsets: Int64s) -> Bytes:
    total = int(offsets[-1])
    if not total:
        return _NO_BYTES
    size = int(lengths[0])
    if (lengths == size).all():
        return np.lib.stride_tricks.sliding_window_view(raw, size)[begins].reshape(-1)
    if total < _BY_INDEX_BYTES * len(lengths):
        return raw[np.arange(total) + np.repeat(begins - offsets[:-1], lengths)]
    pieces = [data[a:b] for a, b in zip(begins.tolist(), (begins + lengths).tolist(), strict=True)]
    return np.frombuffer(b"".join(pieces), np.uint8)


@dataclass(frozen=True, slots=True)
class _Headers:
    offsets: Int64s
    names: _Spans
    values: _Spans


def _headers(raw: Bytes, position: Int64s) -> tuple[_Headers, Int64s]:
    """Return the headers of all records, read as all first ones, all second ones ..., and what is behind."""
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
    """Return the names with a replacement for what is no UTF-8, as Java's String reads it."""
    if not (names.data & 128).any():
        return names
    mended = [(each or b"").decode("utf-8", "replace").encode() for each in names.to_list()]
    offsets = np.cumsum([0, *map(len, mended)]).astype(np.int32)
    return BinaryColumn(offsets, np.frombuffer(b"".join(mended), np.uint8), None)
