"""Produce: append record batches, and answer once they are as durable as their topics ask.

`acks=all` waits until every in-sync replica has the records on its disk, for as long as the request
allows; where there is one replica, acks=1 means the same. Source: KafkaApis.handleProduceRequest.
A batch of a transaction is appended once its partition is known to belong to it (`transactional`).
"""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import cast

import msgspec

from kohort.broker.handlers.data.family import Data
from kohort.broker.handlers.data.record_checks import rest
from kohort.broker.metadata import INTERNAL_TOPICS
from kohort.broker.partitions.partition import LedElsewhere, Partition
from kohort.broker.partitions.produced import Produced, RecordsRejected, check_compression, too_much_work
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kohort.protocol.records import validate_produced
from kohort.protocol.records.work_budget import WorkBudget, WorkBudgetExceeded
from kohort.protocol.schema import RecordsSlice
from kohort.storage import StorageError

FIRST_VERSION_WITH_IDS = 13
NO_OFFSET = -1
ALL = -1


def handle(data: Data, message: ProduceRequest, request: Request) -> ProduceResponse | None:
    """Return the answer where nothing could be appended; else it is sent after the flush."""
    if message.acks not in (-1, 0, 1):
        return _refuse_all(message, ErrorCode.INVALID_REQUIRED_ACKS)
    produce = Produce(data, message, request)
    produce.append_all()
    if not message.acks:
        if not produce.in_checks:
            produce.end_without_answer()
        return None
    return None if produce.waiting else produce.answer()


class Produce:
    """One request in flight: the result of each of its partitions, and how many steps it waits for.

    A step is the check of a batch in a thread, or a flush. The time of the loop for checks is
    limited for the request as a whole.
    """

    __slots__ = (
        "_budget",
        "_data",
        "_message",
        "_now_ms",
        "_request",
        "_results",
        "_uncommitted",
        "failed",
        "in_checks",
        "waiting",
    )

    def __init__(self, data: Data, message: ProduceRequest, request: Request) -> None:
        self._data = data
        self._message = message
        self._request = request
        self._now_ms = data.clock.wall_ms()
        self._budget = WorkBudget.quick()
        self._results: list[list[PartitionProduceResponse | None]] = []  # None until there is one.
        self._uncommitted: dict[int, _ResultSlot] | None = None  # Those that wait for other replicas.
        self.waiting = 0
        self.in_checks = 0
        """How many of its batches a thread looks into: until then it holds its place, acks=0 or not."""
        self.failed = False

    def append_all(self) -> None:
        """Append to every partition of the request, and ask for the flush of each."""
        for topic in self._message.topic_data:
            results: list[PartitionProduceResponse | None] = [None] * len(topic.partition_data)
            self._results.append(results)
            for position, data in enumerate(topic.partition_data):
                place = _ResultSlot(results, position, data.index)
                try:
                    self._take(self._partition(topic, data.index), data.records, place)
                except ApiError as error:
                    self._fail(place, error)

    def _take(
        self, partition: Partition, records: bytes | memoryview | RecordsSlice | None, place: "_ResultSlot"
    ) -> None:
        """Append the records of one partition, now or after a thread has checked them. Raises: ApiError."""
        if records is None:
            raise ApiError(
                ErrorCode.INVALID_RECORD, "a Produce request holds one batch per partition, not none"
            )
        assert isinstance(records, (bytes, memoryview))  # The decoder returns this type.
        header = validate_produced(records)
        check_compression(header, self._request.version)
        if header.is_transactional and self._data.permissions is None:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "No transaction is under way: there are none here")
        connection = self._request.connection
        if not self._data.checks.is_busy(connection):
            try:
                produced = partition.prepare(records, header, self._now_ms, self._budget)
            except WorkBudgetExceeded:
                pass  # Left to the thread, which has more time.
            else:
                self._append(partition, produced, place)
                return
        self.waiting += 1
        self.in_checks += 1
        self._data.checks.submit(
            connection,
            partial(
                _prepared, partial(partition.prepare, records, header, self._now_ms, WorkBudget.full(rest))
            ),
            partial(self._append_checked, partition, place),
        )

    def _append_checked(
        self, partition: Partition, place: "_ResultSlot", result: "Future[Produced | ApiError]"
    ) -> None:
        """Append records that a thread has checked."""
        self.waiting -= 1
        self.in_checks -= 1
        failure = result.exception()
        if failure is not None:
            self._request.hang_up()
            raise failure
        produced = result.result()
        if isinstance(produced, ApiError):
            self._fail(place, produced)
        else:
            try:
                self._append(partition, produced, place)
            except ApiError as error:
                self._fail(place, error)
        if not self._message.acks and not self.in_checks:
            self._request.abandon()
        self._answer_if_done()

    def _append(self, partition: Partition, produced: Produced, place: "_ResultSlot") -> None:
        """Append a batch, one of a transaction once it may be, and ask for the flush. Raises: ApiError."""
        if not produced.header.is_transactional or self._is_permitted(partition, produced, place):
            self._append_now(partition, produced, place)

    def _is_permitted(self, partition: Partition, produced: Produced, place: "_ResultSlot") -> bool:
        """Return whether a batch of a transaction may be appended now; else it is later, or is refused then.

        Raises: ApiError.
        """
        assert self._data.permissions is not None
        is_now = True

        def resume(error: ApiError | None) -> None:
            self.waiting -= 1
            self._append_or_fail(partition, produced, place, error)
            if not is_now:  # Otherwise the appending call checks for the end.
                self._answer_if_done()

        self.waiting += 1
        try:
            may_append = self._data.permissions().may_append(
                partition, produced.header, self._request, self._message.transactional_id, resume
            )
        except ApiError:
            self.waiting -= 1
            raise
        is_now = False
        if may_append:
            self.waiting -= 1
        return may_append

    def _append_or_fail(
        self, partition: Partition, produced: Produced, place: "_ResultSlot", error: ApiError | None
    ) -> None:
        """Append a batch whose transaction now has the partition."""
        try:
            if error is not None:
                raise error
            self._append_now(partition, produced, place)
        except ApiError as refused:
            self._fail(place, refused)

    def _append_now(self, partition: Partition, produced: Produced, place: "_ResultSlot") -> None:
        """Append a batch, and ask for the flush. Raises: ApiError."""
        waits_for_all = self._message.acks == ALL and partition.role.replicated
        if waits_for_all and partition.leadership is not None:
            refused = partition.leadership.check_enough_replicas()
            if refused is not None:
                raise ApiError(refused)
        try:
            appended = partition.append(produced, self._now_ms)
        except StorageError as failed:  # The partition does not know it yet.
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failed)) from failed
        if not appended.duplicate:
            self._count(produced)
        self.waiting += 1
        place.put(
            PartitionProduceResponse(
                index=place.partition_index,
                error_code=0,
                base_offset=appended.base_offset,
                log_append_time_ms=appended.log_append_time_ms,
                log_start_offset=appended.log_start_offset,
            )
        )
        if waits_for_all:
            self._wait_for_replicas(place)
            self._data.flusher.request_commit(partition, partial(self._committed, place, partition))
        else:
            self._data.flusher.request(partition, partial(self._flushed, place, partition))

    def _wait_for_replicas(self, place: "_ResultSlot") -> None:
        if self._uncommitted is None:
            self._uncommitted = {}
            deadline_ms = self._data.clock.now_ms() + max(0, self._message.timeout_ms)
            self._data.timers.set(("produce", self), deadline_ms, self._time_is_up)
            self._request.connection.on_close.append(self._drop)
        self._uncommitted[id(place)] = place

    def _committed(self, place: "_ResultSlot", partition: Partition, error: StorageError | None) -> None:
        """Note the result of records that other replicas had to get."""
        if self._uncommitted is None or self._uncommitted.pop(id(place), None) is None:
            return  # Its time was up.
        if error is None and partition.leadership is not None:
            if not partition.leadership.has_enough_replicas:
                self._fail(place, ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        elif isinstance(error, LedElsewhere):
            self._fail(place, ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            error = None
        self._flushed(place, partition, error)

    def _time_is_up(self) -> None:
        """Say so of records that not every in-sync replica has by now; they may still be committed."""
        late, self._uncommitted = self._uncommitted or {}, {}
        for place in late.values():
            self.waiting -= 1
            self._fail(place, ApiError(ErrorCode.REQUEST_TIMED_OUT))
        self._answer_if_done()

    def _drop(self) -> None:
        """Send no answer: the connection is closed."""
        self._uncommitted = {}
        self._data.timers.cancel(("produce", self))

    def _fail(self, place: "_ResultSlot", error: ApiError) -> None:
        self.failed = True
        self._data.requests.request_failed(error.code)
        place.put(failed_partition(place.partition_index, error))

    def _count(self, produced: Produced) -> None:
        counters = self._data.counters
        counters.produced_batches += 1
        counters.produced_bytes += len(produced.records)
        counters.produced_records += produced.header.record_count

    def _partition(self, topic: TopicProduceData, index: int) -> Partition:
        """Return the partition that may be appended to. Raises: ApiError."""
        table = self._data.partitions
        if self._request.version >= FIRST_VERSION_WITH_IDS:
            partition = table.get_by_id(topic.topic_id, index)
            if partition is None:
                raise ApiError(table.why_missing(topic.topic_id, index))
        else:
            partition = table.get(topic.name, index)
            if partition is None:
                raise ApiError(table.why_missing(topic.name, index))
        if partition.topic in INTERNAL_TOPICS:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition.topic} is written by the broker alone"
            )
        return partition

    def _flushed(self, place: "_ResultSlot", partition: Partition, error: StorageError | None) -> None:
        self.waiting -= 1
        if partition.role.resigned:  # Another broker leads by now, which may lack it.
            self._fail(place, ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        elif error is not None:
            self.failed = True
            place.put(
                failed_partition(place.partition_index, ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            )
        self._answer_if_done()

    def _answer_if_done(self) -> None:
        if not self._message.acks:
            self._close_if_failed()
        elif not self.waiting:
            if self._uncommitted is not None:
                self._data.timers.cancel(("produce", self))
                self._request.connection.on_close.remove(self._drop)
            self._request.respond(self.answer())

    def answer(self) -> ProduceResponse:
        """Return the answer for all partitions; each has its result by now."""
        responses: list[TopicProduceResponse] = []
        for topic, results in zip(self._message.topic_data, self._results, strict=True):
            found = cast("tuple[PartitionProduceResponse, ...]", tuple(results))
            responses.append(
                TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=found)
            )
        return ProduceResponse(responses=tuple(responses))

    def end_without_answer(self) -> None:
        """Answer nothing, as acks=0 asks; a closed connection is how a producer learns of an error."""
        self._request.abandon()
        self._close_if_failed()

    def _close_if_failed(self) -> None:
        if self.failed:
            self._request.connection.close()


def _prepared(prepare: Callable[[], Produced]) -> Produced | ApiError:
    """Return the result of checking a batch; an error without its stack frames.

    These hold all decompressed data, and a stored exception keeps them.
    """
    try:
        return prepare()
    except WorkBudgetExceeded as error:
        return too_much_work(error)
    except ApiError as error:
        return error.with_traceback(None)


class _ResultSlot(msgspec.Struct, frozen=True, gc=False):
    """Where the result of one partition belongs."""

    results: list[PartitionProduceResponse | None]
    position: int
    partition_index: int

    def put(self, result: PartitionProduceResponse) -> None:
        """Make this the partition's result."""
        self.results[self.position] = result


def failed_partition(index: int, error: ApiError) -> PartitionProduceResponse:
    """Return the answer for a partition whose records were refused."""
    rejected = error.record_errors if isinstance(error, RecordsRejected) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=NO_OFFSET,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=text)
            for place, text in rejected
        ),
        error_message=error.message,
    )


def _refuse_all(message: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    error = ApiError(code)
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    failed_partition(each.index, error) for each in topic.partition_data
                ),
            )
            for topic in message.topic_data
        )
    )
