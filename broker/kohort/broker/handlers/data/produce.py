"""Produce: append record batches, and answer once they are as durable as their topics ask.

There is one replica, so acks=1 and acks=all mean the same. Source: KafkaApis.handleProduceRequest.

Transactions have no coordinator yet. A transactional batch is answered INVALID_TXN_STATE, which is
what Kafka says of one outside a transaction: producers give up instead of trying again.
"""

from collections.abc import Sequence
from functools import partial

from kohort.broker.handlers.data.family import Data
from kohort.broker.metadata import INTERNAL_TOPICS
from kohort.broker.partitions.partition import Appended, Partition
from kohort.broker.partitions.produced import RecordsRejected, check_compression
from kohort.broker.transport.request import Request
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.protocol.messages import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kohort.protocol.records import BatchHeader, validate_produced
from kohort.storage import StorageError

FIRST_VERSION_WITH_IDS = 13
NO_OFFSET = -1


def handle(data: Data, message: ProduceRequest, request: Request) -> ProduceResponse | None:
    """Return the answer where nothing could be appended; else it is sent after the flush."""
    if message.acks not in (-1, 0, 1):
        return _refuse_all(message, ErrorCode.INVALID_REQUIRED_ACKS)
    produce = Produce(data, message, request)
    produce.append_all()
    if not message.acks:
        produce.end_without_answer()
        return None
    return None if produce.waiting else produce.answer()


class Produce:
    """One request under way: the result of each of its partitions, and how many flushes it waits for."""

    __slots__ = ("_data", "_message", "_now_ms", "_request", "_results", "failed", "waiting")

    def __init__(self, data: Data, message: ProduceRequest, request: Request) -> None:
        self._data = data
        self._message = message
        self._request = request
        self._now_ms = data.clock.wall_ms()
        self._results: list[list[PartitionProduceResponse]] = []
        self.waiting = 0
        self.failed = False

    def append_all(self) -> None:
        """Append to every partition of the request, and ask for the flush of each."""
        for topic in self._message.topic_data:
            results: list[PartitionProduceResponse] = []
            self._results.append(results)
            for data in topic.partition_data:
                results.append(self._append(topic, data, results))

    def _append(
        self, topic: TopicProduceData, data: PartitionProduceData, results: list[PartitionProduceResponse]
    ) -> PartitionProduceResponse:
        try:
            partition = self._partition(topic, data.index)
            appended = self._append_to(partition, data)
        except ApiError as error:
            self.failed = True
            self._data.requests.request_failed(error.code)
            return failed_partition(data.index, error)
        self.waiting += 1
        self._data.flusher.request(partition, partial(self._flushed, results, len(results)))
        return PartitionProduceResponse(
            index=data.index,
            error_code=0,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.log_start_offset,
        )

    def _count(self, records: bytes | memoryview, headers: Sequence[BatchHeader]) -> None:
        counters = self._data.counters
        counters.produced_batches += len(headers)
        counters.produced_bytes += len(records)
        counters.produced_records += sum(header.record_count for header in headers)

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

    def _append_to(self, partition: Partition, data: PartitionProduceData) -> Appended:
        """Return where the records of one partition went. Raises: ApiError."""
        records = data.records
        if records is None:
            raise ApiError(
                ErrorCode.INVALID_RECORD, "a Produce request holds one batch per partition, not none"
            )
        assert isinstance(records, bytes | memoryview)  # What a decoder makes of a frame.
        headers = validate_produced(records)
        check_compression(headers, self._request.version)
        if any(header.is_transactional for header in headers):
            raise ApiError(ErrorCode.INVALID_TXN_STATE, "No transaction is under way: there are none yet")
        appended = partition.append(records, headers, self._now_ms)
        if not appended.duplicate:
            self._count(records, headers)
        return appended

    def _flushed(
        self, results: list[PartitionProduceResponse], position: int, error: StorageError | None
    ) -> None:
        self.waiting -= 1
        if error is not None:
            self.failed = True
            failure = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            results[position] = failed_partition(results[position].index, failure)
        if not self._message.acks:
            self._close_if_failed()
        elif not self.waiting:
            self._request.respond(self.answer())

    def answer(self) -> ProduceResponse:
        """Return the answer for all partitions."""
        return ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=tuple(results)
                )
                for topic, results in zip(self._message.topic_data, self._results, strict=True)
            )
        )

    def end_without_answer(self) -> None:
        """Answer nothing, as acks=0 asks; a closed connection is how a producer learns of an error."""
        self._request.abandon()
        self._close_if_failed()

    def _close_if_failed(self) -> None:
        if self.failed:
            self._request.connection.close()


def failed_partition(index: int, error: ApiError) -> PartitionProduceResponse:
    """Return what a partition is answered whose records were not taken."""
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
