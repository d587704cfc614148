"""One task's rows on their way into topics: batches per partition, numbered, sent ahead, sent again."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from kohort.client import TopicPartition
from kohort.client.errors import BrokerError, KohortError, check
from kohort.client.partitioner import partition_for_key
from kohort.pipeline.brokers import Brokers, Retries, Sent
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.identity import ProducerIdentity
from kohort.pipeline.options import WriteOptions
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersRequestTopicRequest,
    DescribeProducersResponse,
)
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import Compression, build_batch, max_record_bytes
from kohort.protocol.records.builder import RecordFields
from kohort.protocol.schema import ZERO_UUID

NAMES_IN_PRODUCE = 12  # The newest version that names topics.
MOST_UNDER_WAY = 5  # The broker knows a repeated batch among a producer's last five.
STICKY_ROWS = 500  # Rows without a key go to one partition for this long: their batches are larger then.
ALL_REPLICAS = -1


class StaleBatchError(PipelineError):
    """Another run of the same query has written a later batch already."""


@dataclass(slots=True)
class _Target:
    """A partition with the rows that wait for it."""

    partition: TopicPartition
    next_row: int = 0
    """How many rows of this task went to it, counted before any are left out: the next sequence number."""
    written: int = 0
    """How many of them an earlier run of the same batch has written."""
    rows: list[RecordFields] = field(default_factory=list)
    size_bytes: int = 0


@dataclass(slots=True)
class _Outgoing:
    """A batch that the broker has not acknowledged."""

    partition: TopicPartition
    data: bytes
    sent: Sent[ProduceResponse] | None = None
    """The newest request that carries it."""


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a task: rows written, and rows skipped because they existed."""

    rows: int
    repeated: int


class RowWriter:
    """Writes one task's rows; `finish` returns when all are acknowledged."""

    def __init__(self, options: WriteOptions, brokers: Brokers, who: ProducerIdentity, task: int) -> None:
        self._options = options
        self._brokers = brokers
        self._who = who
        self._task = task
        self._compression = Compression[options.compression.upper()]
        self._targets: dict[str, list[_Target]] = {}
        self._under_way: deque[_Outgoing] = deque()
        self._keyless = 0
        self._rows = self._repeated = 0

    def write(self, topic: str, partition: int | None, fields: RecordFields) -> None:
        """Take a row in. Raises: KohortError, StaleBatchError."""
        targets = self._targets.get(topic)
        if targets is None:
            targets = self._targets[topic] = self._look_up(topic)
        target = targets[self._choose(topic, partition, fields[1], len(targets))]
        target.next_row += 1
        if target.next_row <= target.written:
            self._repeated += 1
            return
        self._rows += 1
        size = max_record_bytes(fields[1], fields[2], fields[3])
        if target.rows and target.size_bytes + size > self._options.batch_bytes:
            self._send(target, target.next_row - 1)
        target.rows.append(fields)
        target.size_bytes += size

    def finish(self) -> Written:
        """Return when everything is acknowledged. Raises: KohortError, StaleBatchError."""
        for target in self._all_targets():
            if target.rows:
                self._send(target, target.next_row)
        while self._under_way:
            self._receive()
        return Written(self._rows, self._repeated)

    def _choose(self, topic: str, partition: int | None, key: bytes | None, count: int) -> int:
        """Return a partition that depends on the rows alone: a repeated batch has to choose the same."""
        if partition is not None:
            if not 0 <= partition < count:
                raise BrokerError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic!r} has {count} partitions, no {partition}"
                )
            return partition
        if key is not None:
            return partition_for_key(key, count)
        self._keyless += 1
        return (self._task + self._keyless // STICKY_ROWS) % count

    def _all_targets(self) -> Iterator[_Target]:
        for targets in self._targets.values():
            yield from targets

    # The rows that exist already

    def _look_up(self, topic: str) -> list[_Target]:
        found = self._brokers.retrying(lambda: self._brokers.partitions([topic]))
        if not found:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} does not exist")
        return [_Target(each, written=self._brokers.retrying(partial(self._written, each))) for each in found]

    def _written(self, partition: TopicPartition) -> int:
        """Return how many rows of this very task the partition has. Raises: KohortError, StaleBatchError."""
        asked = DescribeProducersRequestTopicRequest(
            name=partition.topic, partition_indexes=(partition.partition,)
        )
        answer = self._brokers.request(
            partition, DescribeProducersRequest(topics=(asked,)), DescribeProducersResponse
        )
        told = answer.topics[0].partitions[0]
        check(told.error_code, told.error_message)
        for each in told.active_producers:
            if each.producer_id == self._who.producer_id:
                if each.producer_epoch > self._who.epoch:
                    raise StaleBatchError(f"a later batch of this query is in {partition} already")
                return each.last_sequence + 1 if each.producer_epoch == self._who.epoch else 0
        return 0

    # Sending

    def _send(self, target: _Target, next_row: int) -> None:
        """Send a target's rows, the last of which is numbered `next_row - 1`."""
        data = build_batch(
            target.rows,
            compression=self._compression,
            producer_id=self._who.producer_id,
            producer_epoch=self._who.epoch,
            base_sequence=next_row - len(target.rows),
        )
        target.rows, target.size_bytes = [], 0
        while len(self._under_way) >= MOST_UNDER_WAY:
            self._receive()
        outgoing = _Outgoing(target.partition, data)
        self._under_way.append(outgoing)
        try:
            self._put(outgoing)
        except KohortError as error:
            self._send_again(error)

    def _put(self, outgoing: _Outgoing) -> None:
        data = PartitionProduceData(index=outgoing.partition.partition, records=outgoing.data)
        request = ProduceRequest(
            acks=ALL_REPLICAS,
            timeout_ms=self._options.timeout_ms,
            topic_data=(
                TopicProduceData(name=outgoing.partition.topic, topic_id=ZERO_UUID, partition_data=(data,)),
            ),
        )
        outgoing.sent = self._brokers.send(
            outgoing.partition, request, ProduceResponse, highest=NAMES_IN_PRODUCE
        )

    def _receive(self) -> None:
        """Wait for the oldest batch's acknowledgement. Raises: KohortError."""
        try:
            self._acknowledge()
        except KohortError as error:
            self._send_again(error)

    def _acknowledge(self) -> None:
        oldest = self._under_way[0]
        assert oldest.sent is not None, "whoever puts it in the queue sends it, or sends all again"
        told = self._brokers.receive(oldest.sent).responses[0].partition_responses[0]
        if told.error_code not in {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}:
            message = told.error_message or f"a batch for {oldest.partition} was not written"
            raise BrokerError(told.error_code, message)
        self._under_way.popleft()

    def _send_again(self, error: KohortError) -> None:
        """Send the unacknowledged batches until one is acknowledged, over new connections and in the same
        order.

        Raises: KohortError when a retry is useless, or the time is over.
        """
        retries = Retries(self._options.timeout_ms)
        while True:
            if error.code == ErrorCode.INVALID_PRODUCER_EPOCH:
                raise StaleBatchError(f"a later batch of this query is there already: {error}") from error
            self._brokers.forget()
            retries.pause_after(error)
            try:
                for each in self._under_way:
                    self._put(each)
                return self._acknowledge()
            except KohortError as again:
                error = again
