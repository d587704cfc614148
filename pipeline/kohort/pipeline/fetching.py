"""The record batches of one offset range, fetched by a Spark task: the next fetch is asked for before the
present one is decoded, so that the broker reads while the task computes.
"""

import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from kohort.client import TopicPartition
from kohort.client.batch_table import BatchTable, check_end, read_batches
from kohort.client.errors import BrokerError, KohortError, RequestTimeoutError
from kohort.client.retry import Deadline
from kohort.pipeline.brokers import Brokers, Sent, new_pauses
from kohort.pipeline.errors import DataLossError
from kohort.pipeline.extents import Extent, extent
from kohort.pipeline.options import ReadOptions
from kohort.pipeline.ranges import OffsetRange, log_ends
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from kohort.protocol.schema import ZERO_UUID

NAMES_IN_FETCH = 12  # The newest version that names topics; later ones have their ids alone.
MAX_WAIT_MS = 500
LEAST_FETCH_BYTES = 64 << 10
FIRST_ROW_BYTES = 4 << 10
"""The assumed size of a row until the first fetch: a small range must not fetch megabytes."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Whole batches."""

    batches: BatchTable
    position: int
    """The first wanted offset: the first batch may begin before it."""
    aborted: tuple[AbortedTransaction, ...]


def fetch_range(options: ReadOptions, wanted: OffsetRange) -> Generator[Fetched]:
    """Yield the records of a range. Raises: DataLossError, KohortError."""
    with Brokers(options.servers, options.timeout_ms) as brokers:
        yield from _RangeFetch(brokers, options, wanted).run()


class _RangeFetch:
    """One running fetch of a range."""

    def __init__(self, brokers: Brokers, options: ReadOptions, wanted: OffsetRange) -> None:
        self._brokers = brokers
        self._options = options
        self._partition = TopicPartition(wanted.topic, wanted.partition)
        self._position = wanted.start
        self._end = wanted.end
        self._row_bytes = float(FIRST_ROW_BYTES)
        self._deadline = Deadline(options.timeout_ms)

    def run(self) -> Iterator[Fetched]:
        pauses = new_pauses()
        while self._position < self._end:
            before = self._position
            try:
                yield from self._fetch()
            except BrokerError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._give_up_on(error)
                else:
                    self._find_again()
            except KohortError as error:
                self._give_up_on(error)
            else:
                return
            if self._position > before:
                pauses.reset()
            time.sleep(pauses.next_ms() / 1000)

    def _fetch(self) -> Iterator[Fetched]:
        """Yield from one leader, as long as it goes well. Raises: KohortError, DataLossError."""
        asked = self._ask(self._position)
        while True:
            position = self._position
            data = _partition_data(self._brokers.receive(asked))
            assert isinstance(data.records, bytes | memoryview | None), "it was decoded from bytes"
            batches = read_batches(memoryview(data.records or b""))
            try:
                if not len(batches):
                    check_end(batches)
            except WireError as error:
                raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{self._partition}: {error}") from error
            found = extent(batches, position, self._end)
            self._learn(found, position)
            is_last = found.next_offset >= self._end
            if not is_last:
                asked = self._ask(found.next_offset)
            if len(found.batches):
                yield Fetched(found.batches, position, data.aborted_transactions or ())
            self._position = found.next_offset  # This part has been read: a retry begins after it.
            if is_last:
                return

    def _learn(self, found: Extent, position: int) -> None:
        if found.next_offset > position:
            self._deadline = Deadline(self._options.timeout_ms)
            self._row_bytes = found.batches.size_bytes / (found.next_offset - position)
        elif self._deadline.passed:
            raise _Silent(
                f"{self._partition} gave nothing at offset {position}, before {self._end},"
                f" for {self._options.timeout_ms} ms"
            )

    def _ask(self, position: int) -> Sent[FetchResponse]:
        likely = int((self._end - position) * self._row_bytes * 1.05) + LEAST_FETCH_BYTES
        most = min(self._options.fetch_bytes, likely)
        wanted = FetchPartition(
            partition=self._partition.partition,
            fetch_offset=position,
            partition_max_bytes=most,
            replica_directory_id=ZERO_UUID,
        )
        request = FetchRequest(
            replica_state=ReplicaState(),
            max_wait_ms=min(MAX_WAIT_MS, self._options.timeout_ms),
            min_bytes=1,
            max_bytes=most,
            isolation_level=int(self._options.read_committed),
            topics=(FetchTopic(topic=self._partition.topic, topic_id=ZERO_UUID, partitions=(wanted,)),),
            forgotten_topics_data=(),
        )
        return self._brokers.send(self._partition, request, FetchResponse, highest=NAMES_IN_FETCH)

    def _give_up_on(self, error: KohortError) -> None:
        """Raise `error` unless it may pass and there is time left."""
        self._brokers.forget()
        if not error.retriable or self._deadline.passed or isinstance(error, _Silent):
            raise error

    def _find_again(self) -> None:
        """Continue at the current start of the log. Raises: DataLossError unless told not to."""
        self._brokers.forget()
        now = log_ends(self._brokers, [self._partition], read_committed=False)[self._partition]
        if now.start <= self._position < now.end:
            return  # That leader had fewer records, or more have arrived meanwhile.
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{self._partition} holds offsets from {now.start} up to {now.end}: from {self._position} on"
                " they were deleted. fail_on_data_loss=false reads what is left"
            )
        self._position = now.start if self._position < now.start else self._end


class _Silent(RequestTimeoutError):
    """A broker that answers, but with nothing."""


def _partition_data(answer: FetchResponse) -> PartitionData:
    """Return the answer for the one requested partition. Raises: BrokerError."""
    if answer.error_code:
        raise BrokerError(answer.error_code)
    data = answer.responses[0].partitions[0]
    if data.error_code:
        raise BrokerError(data.error_code, f"{answer.responses[0].topic}-{data.partition_index}")
    return data
