"""The chunks that were fetched and are not read yet, in the order in which the user's thread reads them."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kohort.client.batches import FetchedBatch
from kohort.client.deserializing import Deserializing
from kohort.client.errors import (
    BrokerError,
    DeserializationError,
    KohortError,
    LogTruncationError,
    NoOffsetError,
)
from kohort.client.fetched_chunk import Chunk
from kohort.client.positions import RESET, PartitionState
from kohort.client.values import AnyRecord, TopicPartition
from kohort.protocol.errors import ErrorCode, WireError

if TYPE_CHECKING:
    from kohort.client.columns import RecordColumns

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
        return self._gathered(most, Chunk.take, lambda records: (len(records), len(records)))

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
            lambda found: (sum(each.size_bytes for _, each in found), sum(len(each) for _, each in found)),
        )

    def take_batches(self, most_bytes: int) -> list[FetchedBatch]:
        """Return batches until they have so many bytes, counted as consumed. Raises: KohortError."""
        return self._gathered(
            most_bytes,
            Chunk.take_batches,
            lambda found: (
                sum([len(records) for _, _, records, _ in found]),
                sum([header.record_count for _, header, _, _ in found]),
            ),
        )

    def _gathered(
        self,
        most: int,
        take: Callable[[Chunk, int], Sequence[Part]],
        measure: Callable[[Sequence[Part]], tuple[int, int]],
    ) -> list[Part]:
        """Return parts of chunks until they have the size `most`.

        `measure` tells the size of some parts, and the number of their records.
        Raises: KohortError for unreadable records, when all before them were returned.
        """
        found: list[Part] = []
        places: list[_Place] = []
        size = record_count = 0
        try:
            while size < most and (chunk := self._first(may_raise=not found)) is not None:
                places.append(_Place(chunk))
                try:
                    more = take(chunk, most - size)
                except WireError as error:
                    self._fail(chunk, error)
                    continue
                except DeserializationError as error:
                    chunk.failure = error
                    continue
                if not more:
                    self._used(chunk)
                    continue
                more_size, more_records = measure(more)
                size, record_count = size + more_size, record_count + more_records
                if found or not isinstance(more, list):
                    found += more
                else:
                    found = more
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
