"""The blocking producer."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Generic, Never, Self, Unpack, overload

import anyio

from kohort.client.arguments import PRODUCERS_METHODS, OtherNames, by_name_alone
from kohort.client.batch import Appended
from kohort.client.blocking.cluster_connection import ClusterConnection
from kohort.client.cluster_connection import options_with
from kohort.client.config import ProducerOptions, Serializer, producer_config, with_serializers
from kohort.client.errors import RequestTimeoutError, WouldBlockError
from kohort.client.loop_thread import LoopThread, close_at_exit
from kohort.client.metrics import MetricName
from kohort.client.producer_session import ProducerSession
from kohort.client.record_input import (
    HeadersInput,
    K_contra,
    Raw,
    Record,
    RecordInput,
    V_contra,
    checked_headers,
    checked_timestamp,
)
from kohort.client.unclosed import end_soon
from kohort.client.values import GroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition

_now_ns = time.time_ns


class Delivery(Appended, frozen=True, gc=False):
    """A record on its way: ask `result()` where it went."""

    def result(
        self,
        timeout: float | None = None,
        *,
        timeout_s: float | None = None,
        timeout_ms: float | None = None,
    ) -> RecordMetadata:
        """Return where the record was written, once it is; in so many seconds, as every future in Python.

        Raises: KohortError if it was not; RequestTimeoutError when the time is over.
        """
        if timeout_s is None:
            timeout_s = timeout if timeout_ms is None else timeout_ms / 1000
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        batch, index = self.batch.locate(self.index)
        while not batch.is_done:
            remaining_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            if not batch.wait_in_thread(remaining_s):
                raise RequestTimeoutError(f"the fate of the record was not known in {timeout_s} s")
            batch, index = batch.locate(index)
        return batch.metadata_of(index, self.timestamp_ms)

    def add_done_callback(self, callback: "Callable[[Delivery], None]") -> None:
        """Call `callback` with this delivery when the record's fate is known; `result()` is quick then.

        It is called in the producer's own thread, where it must not wait; or here, if the fate is known.
        """
        self.when_done(lambda: callback(self))


class Producer(OtherNames, Generic[K_contra, V_contra]):
    """Writes records.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("flights", value=b"...", key=b"UA")

    Any number of threads may send. `close`, or the end of the block, flushes.
    """

    _called_here: Mapping[str, str] = {**PRODUCERS_METHODS, "stop": "close"}

    @overload
    def __init__(
        self: "Producer[Raw, Raw]",
        *unnamed: Never,
        key_serializer: None = None,
        value_serializer: None = None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Producer[object, Raw]",
        *unnamed: Never,
        key_serializer: Serializer,
        value_serializer: None = None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Producer[Raw, object]",
        *unnamed: Never,
        key_serializer: None = None,
        value_serializer: Serializer,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Producer[object, object]",
        *unnamed: Never,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None: ...
    def __init__(
        self,
        *unnamed: Never,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        cluster: ClusterConnection | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        by_name_alone(unnamed, "Producer(bootstrap_servers=...)")
        shared = None if cluster is None else cluster.connection
        config = producer_config(
            with_serializers(options_with(shared, options), key_serializer, value_serializer)
        )
        self._input = RecordInput(config)
        hub = None if shared is None else shared.shared

        def wake() -> None:  # It does not know this producer, which its thread must not hold.
            loop.call_soon(session.wake)

        self._session = session = ProducerSession(config, self._input, Delivery, wake, hub)
        self._append = self._session.accumulator.append
        self._is_plain = self._input.is_plain and config.transactional_id is None
        host = None if cluster is None else cluster.loop
        self._loop = loop = LoopThread(session, "kohort-producer", session.after_fork, host)
        self._shared = cluster  # As long as this client is held, its connection is.
        self._is_closing = False
        self._close_later = False  # A signal handler wanted it, in the midst of a send.
        self._not_at_exit = close_at_exit(self.close)

    def __repr__(self) -> str:
        state = "" if self._loop.is_running else "closed "
        return f"<{state}Producer {self._session.describe()}>"

    def __del__(self) -> None:
        if "_not_at_exit" in self.__dict__ and self._loop.is_running and not self._is_closing:
            self._not_at_exit()
            end_soon(self, self._loop, self._session.flush, self._session.config.delivery_timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: V_contra | None = None,
        *,
        key: K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersInput = (),
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Return a record's delivery as soon as it has a place in a batch.

        Key and value are bytes, or what the serializers take. A key chooses its partition as every Kafka
        client does; without one, partitions take turns by the batch. `on_delivery` is as with
        `Delivery.add_done_callback`. Headers are pairs of a name and bytes, or a mapping. Raises: TypeError,
        ValueError for what no record can have; KohortError when the topic can't be found or there is no room
        in time.
        """
        if self._is_plain and type(value) is bytes and (key is None or type(key) is bytes):
            timestamp_ms = _now_ns() // 1_000_000 if timestamp_ms is None else checked_timestamp(timestamp_ms)
            headers = checked_headers(headers) if headers else ()
            appended = self._append(
                topic,
                value,
                key,  # type: ignore[arg-type]  # Its type was looked at.
                partition,
                timestamp_ms,
                headers,
            )
            if appended is None:
                record = self._input.record(topic, value, key, partition, timestamp_ms, headers)
                appended = self._append_later(record)
        else:
            record = self._input.record(topic, value, key, partition, timestamp_ms, headers)
            appended = self._append_later(record)
        assert isinstance(appended, Delivery)
        if on_delivery is not None:
            appended.add_done_callback(on_delivery)
        return appended

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make one transaction of what is sent in the block: committed at its end, aborted by an exception.

        Raises: TransactionFailedError where something could not be written (all of it is aborted then);
        ProducerFencedError where another producer has the transactional id by now.
        """
        self._loop.call(self._session.begin_transaction)
        try:
            yield
            self._loop.call(self._session.end_transaction, is_commit=True)
        except BaseException as failure:
            self._loop.call(self._session.abort_after_failure, failure)
            raise

    def init_transactions(self) -> None:
        """Fence every other producer of this transactional id, and end what it has left.

        The first `begin_transaction` does it, too.
        """
        self._loop.call(self._session.init_transactions)

    def begin_transaction(self) -> None:
        """Begin a transaction; `transaction()` does it in a block."""
        self._loop.call(self._session.begin_transaction)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets with the transaction: the next ones to read, as a consumer commits them.

        `group` is the consumer's `group_metadata()`: a member that was thrown out commits nothing any more.
        """
        self._loop.call(self._session.send_offsets, offsets, group)

    def commit_transaction(self) -> None:
        """Write everything, and commit. Raises: TransactionFailedError where it has to be aborted instead."""
        self._loop.call(self._session.end_transaction, is_commit=True)

    def abort_transaction(self) -> None:
        """Let nothing of the transaction count."""
        self._loop.call(self._session.end_transaction, is_commit=False)

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send everything now, and return when the fate of each record is known.

        Raises: RequestTimeoutError when the time is over.
        """
        self._loop.check_may_wait("flush")
        if self._session.accumulator.appends():
            raise WouldBlockError("flush would wait for the send that this signal handler has interrupted")
        self._loop.call(self._flush, timeout_ms)

    def partitions_for(self, topic: str) -> tuple[int, ...]:
        """Return the numbers of a topic's partitions."""
        return self._loop.call(self._session.partitions_for, topic)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what this producer counts, under the names of Kafka's Java client."""
        return self._session.metrics.read()

    def close(self, timeout_ms: float | None = None) -> None:
        """Send what is left, within the time (delivery_timeout_ms), and end.

        In a signal handler that has interrupted a `send` it returns at once, and is done by the next call of
        `send` or `close`, or at the interpreter's end. In a process that was forked off it does nothing.
        Raises: RequestTimeoutError if not everything could be sent; the rest is given up.
        """
        if not self._loop.is_running or self._is_closing:
            return
        if self._session.accumulator.appends():
            self._close_later = True
            self._session.accumulator.refuse()
            return
        self._is_closing = True
        self._not_at_exit()
        try:
            self.flush(self._session.config.delivery_timeout_ms if timeout_ms is None else timeout_ms)
        finally:
            self._loop.stop()

    def _append_later(self, record: Record) -> Appended:
        """Return the record's place, which takes more than a lock: a partitioner, metadata, or room."""
        if self._close_later:
            self.close()
        appended = self._session.try_append(record)
        if appended is None:
            self._loop.check_may_wait("send")
            appended = self._loop.call(self._session.append, record)
        return appended

    async def _flush(self, timeout_ms: float | None) -> None:
        try:
            with anyio.fail_after(None if timeout_ms is None else timeout_ms / 1000):
                await self._session.flush()
        except TimeoutError:
            raise RequestTimeoutError(f"not everything was written in {timeout_ms} ms") from None
