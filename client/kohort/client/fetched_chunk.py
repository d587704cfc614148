"""The result of one fetch for one partition, read batch by batch in the user's thread."""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING

from kohort.client.batches import Aborted, FetchedBatch, plain_records, visible_batches
from kohort.client.decoding import PartitionRecords
from kohort.client.deserializing import Deserializing
from kohort.client.errors import KohortError
from kohort.client.positions import PartitionState
from kohort.client.values import AnyRecord, ConsumerRecord, TopicPartition
from kohort.protocol.errors import WireError
from kohort.protocol.records import HEADER_BYTES, BatchHeader, Buffer
from kohort.protocol.records.header import LOG_OVERHEAD_BYTES

if TYPE_CHECKING:
    from kohort.client.columns import RecordColumns

FILL_RECORDS = 500  # About as many as a poll hands out.
_EDGES = Struct(">qi11xi")  # A batch's base offset, length and last offset delta.


def next_offset_behind(records: Buffer) -> int | None:
    """Return the offset after the last whole batch of a fetch, None if there is none."""
    position, end, edges = 0, len(records), _EDGES.unpack_from
    last_begin, found = end - HEADER_BYTES, None
    while position <= last_begin:
        base_offset, length, last_offset_delta = edges(records, position)
        position += LOG_OVERHEAD_BYTES
        if length > 0:  # Else the decoder raises the error later.
            position += length
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
        batches = self._unread_batches()
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

    def _unread_batches(self) -> Iterator[tuple[BatchHeader, memoryview | None]]:
        """Return the batches that are left. If the caller does not keep them, they are read again."""
        batches, self._batches, self._columns = self._batches, None, None
        if batches is None:
            return visible_batches(self.data, check_crcs=self.check_crcs, aborted=self.aborted)
        return batches

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
        batches = self._unread_batches()
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
        self.handed_out += sum([header.record_count for _, header, _, _ in found])
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
        begin, size_bytes, partition = self.stand.position or 0, 0, self.state.partition
        last: BatchHeader | None = None
        for header, payload in batches:
            if header.next_offset <= begin:
                continue
            if payload is not None:
                records = plain_records(header, payload)
                found.append(FetchedBatch(partition, header, records, begin))
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
