"""Fetched records that are not read yet, returned batch by batch in the user's thread."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, TypeVar

from kohort.client.batches import Aborted, FetchedBatch, plain_records, visible_batches
from kohort.client.decoding import PartitionRecords
from kohort.client.deserializing import Deserializing
from kohort.client.errors import (
    BrokerError,
    DeserializationError,
    KohortError,
    LogTruncationError,
    NoOffsetError,
)
from kohort.client.positions import RESET, PartitionState
from kohort.client.values import AnyRecord, ConsumerRecord, TopicPartition
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.records import HEADER_BYTES, BatchHeader, Buffer
from kohort.protocol.records.header import LOG_OVERHEAD_BYTES

if TYPE_CHECKING:
    from kohort.client.columns import RecordColumns

FILL_RECORDS = 500  # About as many as a poll hands out.
_EDGES = Struct(">qi11xi")  # A batch's base offset, length and last offset delta.


def next_offset_behind(records: Buffer) -> int | None:
    """Return the offset after the last whole batch of a fetch, None if there is none."""
    position, end = 0, len(records)
    found = None
    while position + HEADER_BYTES <= end:
        base_offset, length, last_offset_delta = _EDGES.unpack_from(records, position)
        position += LOG_OVERHEAD_BYTES + max(length, 0)  # The decoder raises the error later.
        if position <= end:
            found = base_offset + last_offset_delta + 1
    return found


class Chunk:
    """The result of one fetch for one partition: records, or an error in their place."""

    __slots__ = (
        "_batches",
        "_columns",
        "_header",
        "aborted",
        "check_crcs",
        "data",
        "deserializing",
        "failure",
        "fetching",
        "handed_out",
        "left",
        "passed_over",
        "stand",
        "state",
        "taken",
    )

    def __init__(
        self,
        state: PartitionState,
        data: Buffer = b"",
        *,
        check_crcs: bool = True,
        aborted: Aborted | None = None,
        failure: KohortError | None = None,
    ) -> None:
        self.state = state
        self.stand = state.stand
        self.fetching = self.stand.fetching
        self.data = data
        self.check_crcs = check_crcs
        self.aborted = aborted
        self.failure = failure
        self.deserializing: Deserializing | None = None  # Set by the buffer.
        self.left: Sequence[AnyRecord] = ()  # The records of the batch that is being read ...
        self.taken = 0  # ... and how many of them the user has got.
        self.handed_out = 0  # Records of an earlier position.
        self.passed_over = False  # A poll took others, because its partition is paused.
        self._header: BatchHeader | None = None
        self._batches: Iterator[tuple[BatchHeader, memoryview | None]] | None = None
        self._columns: Iterator[RecordColumns] | None = None

    @property
    def is_void(self) -> bool:
        """Whether the partition has another position by now, or was fetched again."""
        return self.fetching is not self.state.stand.fetching

    def take(self, most: int) -> Sequence[AnyRecord]:
        """Return some records of a batch and count them as consumed; none when all is read.

        Raises: WireError for a batch that can't be read; the position is then before it.
        """
        if self.taken >= len(self.left) and not self.fill():
            return ()
        left, start = self.left, self.taken
        stop = min(start + most, len(left))
        self.taken = stop
        self.stand.position = left[stop - 1].offset + 1
        return left if stop - start == len(left) else left[start:stop]

    def fill(self) -> bool:
        """Return whether more can be read: some hundred records of one or several batches.

        Raises: WireError for a batch that can't be read, DeserializationError for a record that can't, when
        all before it is read.
        """
        self._pass_by()
        self._columns = None
        if self._batches is None:
            self._batches = visible_batches(self.data, check_crcs=self.check_crcs, aborted=self.aborted)
        batches, self._batches = self._batches, None  # Where it is not read whole, it is met again.
        records: list[ConsumerRecord] = []
        header: BatchHeader | None = None
        try:
            header = self._read_batches(batches, records)
        except WireError:
            if not records:
                raise
        else:
            self._batches = batches
        made: list[AnyRecord] = records
        if self.deserializing is not None and records:
            made = self._deserialized(self.deserializing, records)
        if self.is_void:  # Since the check: reading takes a while.
            return False
        if len(made) < len(records):
            self._batches = header = None
        self.handed_out += self.taken
        self.left, self.taken, self._header = made, 0, header
        if header is not None:
            # The epoch of the last batch is used for all: a later epoch includes the records before it.
            self.stand.leader_epoch = header.partition_leader_epoch
        if made:
            return True
        self._pass_by()
        return False

    def _deserialized(self, deserializing: Deserializing, records: list[ConsumerRecord]) -> list[AnyRecord]:
        try:
            return deserializing.apply(records)
        except BaseException:
            self._batches = None
            raise

    def _read_batches(
        self, batches: Iterator[tuple[BatchHeader, memoryview | None]], records: list[ConsumerRecord]
    ) -> BatchHeader | None:
        """Add records; return the header of the last batch that was read. Raises: WireError."""
        position, lists = self.stand.position or 0, PartitionRecords(self.state.partition)
        last: BatchHeader | None = None
        for header, payload in batches:
            if payload is not None and header.last_offset >= position:
                whole = len(records)
                try:
                    lists.read(header, plain_records(header, payload), records)
                except WireError:
                    del records[whole:]
                    raise
                if header.base_offset < position:
                    records[whole:] = [each for each in records[whole:] if each.offset >= position]
            last = header
            if len(records) >= FILL_RECORDS:
                break
        return last

    def _pass_by(self) -> None:
        """Continue after the batch that was read, whose last records may be missing or invisible."""
        if self._header is not None:
            self.stand.position = max(self.stand.position or 0, self._header.next_offset)
            self.left, self._header = (), None

    def take_columns(self, most_bytes: int) -> "list[tuple[TopicPartition, RecordColumns]]":
        """Return records of about so many bytes, counted as consumed; none when all is read.

        Raises: WireError.
        """
        from kohort.client.columns import (  # noqa: PLC0415  numpy is only for columns.
            MAX_CHUNK_BYTES,
            decode_columns,
        )

        columns, self._columns = self._columns, None  # An interrupted one is begun again at the position.
        if columns is None:
            self._leave_batch()
            columns = decode_columns(
                self.data,
                fetch_offset=self.stand.position or 0,
                check_crcs=self.check_crcs,
                aborted=self.aborted,
                max_chunk_bytes=min(most_bytes, MAX_CHUNK_BYTES),
            )
        for found in columns:
            if self.is_void:  # Since the check: reading takes a while.
                break
            self.stand.position = found.next_offset
            self.stand.leader_epoch = found.leader_epoch
            if len(found):
                self._columns = columns
                self.handed_out += len(found)
                return [(self.state.partition, found)]
        return []

    def take_batches(self, most_bytes: int) -> list[FetchedBatch]:
        """Return batches until they have so many bytes, counted as consumed; none when all is read.

        Raises: WireError for a batch that can't be read, when all before it were returned.
        """
        if self.left or self._header is not None:
            self._leave_batch()
        self._columns = None
        if self._batches is None:
            self._batches = visible_batches(self.data, check_crcs=self.check_crcs, aborted=self.aborted)
        batches, self._batches = self._batches, None  # Where it is not read whole, it is met again.
        found: list[FetchedBatch] = []
        last: BatchHeader | None = None
        try:
            last = self._find_batches(batches, most_bytes, found)
        except WireError:
            if not found:
                raise
            last = found[-1].header
        else:
            self._batches = batches
        if last is None or self.is_void:  # Since the check: reading takes a while.
            return []
        self.handed_out += sum(each.header.record_count for each in found)
        self.stand.position = last.next_offset
        self.stand.leader_epoch = last.partition_leader_epoch
        return found

    def _find_batches(
        self,
        batches: Iterator[tuple[BatchHeader, memoryview | None]],
        most_bytes: int,
        found: list[FetchedBatch],
    ) -> BatchHeader | None:
        """Add batches; return the header of the last one that was read. Raises: WireError."""
        begin, size_bytes = self.stand.position or 0, 0
        last: BatchHeader | None = None
        for header, payload in batches:
            if header.next_offset <= begin:
                continue
            if payload is not None:
                records = plain_records(header, payload)
                found.append(FetchedBatch(self.state.partition, header, records, begin))
                size_bytes += len(records)
            last = header
            if size_bytes >= most_bytes:
                break
        return last

    def _leave_batch(self) -> None:
        """Forget the batch that a poll reads: it is met again, and its other records read in another form."""
        self.handed_out += self.taken
        self.left, self.taken, self._header, self._batches = (), 0, None, None

    def detach(self) -> None:
        """Copy the chunk out of its answer.

        It may wait for long, and would keep the whole answer in memory.
        """
        if not isinstance(self.data, bytes):
            self.data = bytes(self.data)
            self._batches = self._columns = None  # From the position on, they are met again.


Part = TypeVar("Part")


class _Place:
    """Where a partition was read before a call took more of its records."""

    __slots__ = ("_chunk", "_leader_epoch", "_position")

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._position = chunk.stand.position
        self._leader_epoch = chunk.stand.leader_epoch

    def restore(self) -> None:
        """Read and fetch from here again, unless the partition has another position by now."""
        chunk = self._chunk
        if not chunk.is_void and chunk.stand.position != self._position:
            chunk.stand.position, chunk.stand.leader_epoch = self._position, self._leader_epoch
            chunk.state.void()


class FetchBuffer:
    """Chunks in their order of arrival, which is fair: each answer has one per partition.

    Chunks of a paused partition that polls skipped come after all others when it is resumed.
    One thread adds, and the reading one takes, moves positions and handles errors; `Stand` describes
    how that works without a lock.
    """

    def __init__(self, *, can_reset: bool, deserializing: Deserializing | None = None) -> None:
        self.is_hungry = False  # Something was used up, or given up: there is room for more.
        self._can_reset = can_reset
        self._deserializing = deserializing
        self._chunks: deque[Chunk] = deque()
        self._handed_out = 0  # Records of chunks that are gone.
        self._current: Chunk | None = None

    def add(self, chunk: Chunk) -> None:
        """Keep the result of a fetch."""
        chunk.deserializing = self._deserializing
        if chunk.state.paused:
            chunk.detach()
        chunk.fetching.chunks_fetched += 1
        self._chunks.append(chunk)

    @property
    def handed_out(self) -> int:
        """The number of returned records so far."""
        return self._handed_out + sum(each.handed_out + each.taken for each in self._chunks.copy())

    @property
    def held_bytes(self) -> int:
        """How much is held for the user."""
        return sum(len(each.data) for each in self._chunks.copy() if not each.is_void)

    def detach(self, state: PartitionState) -> None:
        """Copy a partition's chunks out of their answers: its user does not want them now."""
        for each in self._chunks.copy():
            if each.state is state:
                each.detach()

    def drop_paused(self) -> None:
        """Drop the chunks of paused partitions: they can be fetched again."""
        for each in self._chunks.copy():
            if each.state.paused and each.failure is None:
                each.state.void()

    def resume(self) -> None:
        """Put skipped chunks after the rest, in order; for partitions that are not paused any more.

        Only while the reader waits. Source: FetchCollector.collectFetch, which does so at each poll.
        """
        chunks = self._chunks
        resumed = {each.state for each in chunks if each.passed_over and not each.state.paused}
        if resumed:
            self._chunks = deque(sorted(chunks, key=lambda each: each.state in resumed))
            self._current = None
            for each in chunks:
                if each.state in resumed:
                    each.passed_over = False

    @property
    def has_records(self) -> bool:
        """Whether there is a chunk that may have a record for the user, or an error."""
        chunks = self._chunks
        return any(not each.state.paused and not each.is_void for each in chunks.copy())

    def raise_failure(self, state: PartitionState) -> None:
        """Raise what keeps a partition from having a position, as a poll would. Raises: KohortError."""
        for chunk in tuple(self._chunks):
            if chunk.state is state and chunk.failure is not None and not chunk.is_void:
                self._used(chunk)
                self._settle(state, chunk.failure)

    def take(self, most: int) -> list[AnyRecord]:
        """Return up to `most` records, counted as consumed. Raises: KohortError for unreadable ones."""
        taken: list[AnyRecord] = []
        places: list[_Place] = []
        try:
            while len(taken) < most:
                chunk = self._first(may_raise=not taken)
                if chunk is None:
                    break
                places.append(_Place(chunk))
                try:
                    more = chunk.take(most - len(taken))
                except WireError as error:
                    self._fail(chunk, error)
                    continue
                except DeserializationError as error:
                    chunk.failure = error
                    continue
                if not more:
                    self._used(chunk)
                elif taken or not isinstance(more, list):
                    taken += more
                else:
                    taken = more
        except KohortError:  # Only where nothing was taken.
            raise
        except BaseException:
            self._take_back(places, len(taken))
            raise
        return taken

    def next_record(self) -> AnyRecord | None:
        """Return the next record, counted as consumed, or None if none is available. Raises: KohortError."""
        chunk = self._current
        if chunk is not None:
            state, taken, left = chunk.state, chunk.taken, chunk.left
            stand = state.stand
            if taken < len(left) and stand.fetching is chunk.fetching and not state.paused:
                record = left[taken]
                chunk.taken = taken + 1
                stand.position = record.offset + 1
                return record
        found = self.take(1)
        self._current = self._first_read()
        return found[0] if found else None

    def _first_read(self) -> Chunk | None:
        """Return the first chunk of a partition that is not paused; others may be added meanwhile."""
        for place in range(len(self._chunks)):
            chunk = self._chunks[place]
            if not chunk.state.paused:
                return chunk
        return None

    def take_columns(self, most_bytes: int) -> "list[tuple[TopicPartition, RecordColumns]]":
        """Return columns until they have so many bytes, counted as consumed. Raises: KohortError."""
        return self._gathered(
            most_bytes,
            lambda chunk, _: chunk.take_columns(most_bytes),
            lambda each: (each[1].size_bytes, len(each[1])),
        )

    def take_batches(self, most_bytes: int) -> list[FetchedBatch]:
        """Return batches until they have so many bytes, counted as consumed. Raises: KohortError."""
        return self._gathered(
            most_bytes,
            Chunk.take_batches,
            lambda each: (len(each.records), each.header.record_count),
        )

    def _gathered(
        self,
        most_bytes: int,
        take: Callable[[Chunk, int], list[Part]],
        measure: Callable[[Part], tuple[int, int]],
    ) -> list[Part]:
        """Return parts of chunks; `measure` tells the bytes and the records of one.

        Raises: KohortError for unreadable records, when all before them were returned.
        """
        found: list[Part] = []
        places: list[_Place] = []
        size_bytes = record_count = 0
        try:
            while size_bytes < most_bytes and (chunk := self._first(may_raise=not found)) is not None:
                places.append(_Place(chunk))
                try:
                    more = take(chunk, most_bytes - size_bytes)
                except WireError as error:
                    self._fail(chunk, error)
                    continue
                if not more:
                    self._used(chunk)
                for each in more:
                    size, count = measure(each)
                    size_bytes, record_count = size_bytes + size, record_count + count
                found += more
        except KohortError:  # Only where nothing was found.
            raise
        except BaseException:
            self._take_back(places, record_count)
            raise
        return found

    def _take_back(self, places: "list[_Place]", record_count: int) -> None:
        """Go back to these places: an interrupted call has returned none of the records that it took."""
        for each in places:
            each.restore()
        self._handed_out -= record_count

    def _first(self, *, may_raise: bool) -> Chunk | None:
        """Return the first chunk that may be read now; handle errors that are due."""
        place = 0
        while place < len(self._chunks):
            chunk = self._chunks[place]
            if chunk.is_void:
                self._drop(chunk)
            elif chunk.state.paused:
                chunk.passed_over = True
                place += 1
            elif chunk.failure is None:
                return chunk
            elif not may_raise:
                return None
            else:
                self._used(chunk)
                self._settle(chunk.state, chunk.failure)
        return None

    def _used(self, chunk: Chunk) -> None:
        self._drop(chunk)
        chunk.fetching.chunks_used += 1

    def _drop(self, chunk: Chunk) -> None:
        self._chunks.remove(chunk)
        self._handed_out += chunk.handed_out + chunk.taken
        self.is_hungry = True

    @staticmethod
    def _fail(chunk: Chunk, error: WireError) -> None:
        """Put the error in the chunk's place: it is raised when all earlier records were returned."""
        where = f"{chunk.state.partition} at offset {chunk.stand.position}"
        chunk.failure = BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{where}: {error}")

    def _settle(self, state: PartitionState, failure: KohortError) -> None:
        """Reset a lost position if allowed; raise any other error, and then fetch again."""
        if isinstance(failure, LogTruncationError):
            self._go_back(state, failure)
            return
        if failure.code is not ErrorCode.OFFSET_OUT_OF_RANGE or isinstance(failure, NoOffsetError):
            state.void()
            raise failure
        if not self._can_reset:
            state.void()
            raise NoOffsetError(
                f"partition {state.partition}: its offset {state.position} is out of range, and"
                " auto_offset_reset is 'none'"
            ) from failure
        state.seek_to(RESET)

    def _go_back(self, state: PartitionState, failure: LogTruncationError) -> None:
        """Go on where the log was cut off, as far as that is known. Raises: LogTruncationError."""
        if not self._can_reset:
            state.void()
            raise failure
        end = failure.divergent
        if end is None:
            state.seek_to(RESET)
        else:
            state.seek(end.offset, end.leader_epoch, validated_epoch=state.validated_epoch)
