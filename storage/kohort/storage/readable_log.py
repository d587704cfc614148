"""The side of a log that readers see: any thread may read, while one writes and one replaces segments."""

from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from kohort.protocol.records import read_header
from kohort.storage.compaction import AbortedTransaction
from kohort.storage.errors import StorageError
from kohort.storage.reading import (
    Slice,
    Tail,
    TimestampOffset,
    find_max_timestamp,
    find_slice,
    find_timestamp,
    read_batches,
)
from kohort.storage.segment import Segment
from kohort.storage.transaction_index import AbortedTransactions, with_markers


class ReadableLog:
    """The segments of a log and its end, each replaced as a whole by its writer."""

    def __init__(
        self, directory: Path, segments: tuple[Segment, ...], tail: Tail, log_start_offset: int
    ) -> None:
        self.directory = directory
        self.log_start_offset = log_start_offset
        self._segments = segments
        self._tail = tail
        self.aborted_transactions = AbortedTransactions()
        """The aborted transactions whose markers are written."""
        self._may_lack_markers = False  # Whether compaction may have removed some, and left the index.
        self._renaming = Lock()  # Held while files change names, so that readers can wait for the new ones.

    @property
    def written_offset(self) -> int:
        """The offset of the next batch in the file: readers see everything before it."""
        return self._tail.written_offset

    @property
    def size_bytes(self) -> int:
        """The bytes written, all segments together."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, the active one last: never changed, but replaced by another tuple."""
        return self._segments

    @property
    def segment_count(self) -> int:
        """How many segments there are."""
        return len(self._segments)

    @property
    def max_timestamp(self) -> int:
        """The newest written timestamp, -1 if there is none."""
        return max(segment.newest_timestamp()[0] for segment in self._segments)

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one_batch: bool = True) -> Slice:
        """Return the location of the batches from the one that contains `offset`, before `end_offset`.

        They are of one segment; at `max_bytes` the last is cut, but the first is whole if
        `at_least_one_batch`. `end_offset` is the bound of a batch. Empty when there is nothing.
        Raises: StorageError.
        """
        tail = self._tail  # Before the segments: they may be newer, never older.
        segments = self._segments
        try:
            return find_slice(segments, tail, offset, end_offset, max_bytes, whole=at_least_one_batch)
        except OSError as error:
            self._check_replaced(segments, error)
        return self.read(offset, max_bytes, end_offset, at_least_one_batch=at_least_one_batch)

    def read_batches(self, offset: int = 0) -> Iterator[memoryview]:
        """Yield the written batches from the one that contains `offset`: to replay a log.

        Raises: StorageError.
        """
        tail = self._tail
        while True:
            segments = self._segments
            try:
                for batch in read_batches(segments, tail, offset):
                    yield batch
                    offset = read_header(batch).next_offset
            except OSError as error:
                self._check_replaced(segments, error)
            else:
                return

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record not older than `timestamp_ms`: (offset, timestamp, leader epoch).

        Raises: StorageError.
        """
        tail = self._tail
        segments = self._segments
        try:
            return find_timestamp(segments, tail, timestamp_ms, self.log_start_offset)
        except OSError as error:
            self._check_replaced(segments, error)
        return self.offset_for_timestamp(timestamp_ms)

    def offset_for_max_timestamp(self) -> TimestampOffset | None:
        """Return the first of the newest records: (offset, timestamp, leader epoch). Raises: StorageError."""
        tail = self._tail
        segments = self._segments
        try:
            return find_max_timestamp(segments, tail, self.log_start_offset)
        except OSError as error:
            self._check_replaced(segments, error)
        return self.offset_for_max_timestamp()

    def aborted_from(self, offset: int, end_offset: int | None = None) -> list[AbortedTransaction]:
        """Return the aborted transactions that may contain records from `offset` up to `end_offset`.

        Without an end, as far as one slice goes, which never leaves its segment. Raises: StorageError.
        """
        if not self.aborted_transactions:
            return []
        segments = self._segments
        end = end_offset
        if end is None:
            bounds = (segment.base_offset for segment in segments if segment.base_offset > offset)
            end = next(bounds, self.written_offset)
        found = self.aborted_transactions.between(offset, end)
        try:
            return with_markers(found, segments) if self._may_lack_markers else found
        except OSError as error:
            self._check_replaced(segments, error)
        return self.aborted_from(offset, end_offset)

    def _check_replaced(self, segments: tuple[Segment, ...], error: OSError) -> None:
        """Return if the segments that could not be read were replaced meanwhile. Raises: StorageError."""
        with self._renaming:
            if segments is self._segments or not isinstance(error, FileNotFoundError):
                raise StorageError(f"{self.directory} cannot be read: {error}") from error
