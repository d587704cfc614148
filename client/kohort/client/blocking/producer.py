"""The blocking producer."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Generic, Never, Unpack, overload

import anyio

from kohort.client import producer
from kohort.client.arguments import DELIVERYS_METHODS, PRODUCERS_METHODS, OtherNames, by_name_alone
from kohort.client.batch import Appended
from kohort.client.blocking.client import BlockingClient, blocking
from kohort.client.blocking.cluster_connection import ClusterConnection, connection_of
from kohort.client.config import ProducerOptions, Serializer
from kohort.client.errors import RequestTimeoutError, WouldBlockError
from kohort.client.producer_options import KeyAndValueOptions, KeyOptions, PlainOptions, ValueOptions
from kohort.client.record_input import (
    HeadersInput,
    K_contra,
    Raw,
    Record,
    V_contra,
    checked_headers,
    checked_timestamp,
)
from kohort.client.values import RecordMetadata

_now_ns = time.time_ns


class Delivery(Appended, OtherNames, frozen=True, gc=False):
    """A record that is being sent: `result()` returns its RecordMetadata."""

    _called_here = DELIVERYS_METHODS

    def result(
        self,
        timeout: float | None = None,
        *,
        timeout_s: float | None = None,
        timeout_ms: float | None = None,
    ) -> RecordMetadata:
        """Return where the record was written, when it is.

        The timeout is in seconds, as for every future in Python.
        Raises: KohortError if it was not written; RequestTimeoutError at the timeout.
        """
        if timeout_s is None:
            timeout_s = timeout if timeout_ms is None else timeout_ms / 1000
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        batch, index = self.batch.locate(self.index)
        while not batch.is_done:
            remaining_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            if not batch.wait_in_thread(remaining_s):
                raise RequestTimeoutError(f"the result of the record was not known in {timeout_s} s")
            batch, index = batch.locate(index)
        return batch.metadata_of(index, self.timestamp_ms)

    def add_done_callback(self, callback: "Callable[[Delivery], None]") -> None:
        """Call `callback` with this delivery when the record's fate is known; `result()` is quick then.

        It is called in the producer's own thread, where it must not wait; or here, if the fate is known.
        """
        self.when_done(lambda: callback(self))


class _ProducerOfThread(producer.Producer[K_contra, V_contra]):
    """The asynchronous producer in the blocking one's thread."""

    _delivery_type = Delivery


class Producer(
    BlockingClient[_ProducerOfThread[K_contra, V_contra]], OtherNames, Generic[K_contra, V_contra]
):
    """Writes records.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("flights", value=b"...", key=b"UA")

    Any number of threads may send. `close`, or the end of the block, flushes.
    """

    _called_here: ClassVar[Mapping[str, str]] = {**PRODUCERS_METHODS, "stop": "close"}

    @overload
    def __init__(self: "Producer[Raw, Raw]", **options: Unpack[PlainOptions[ClusterConnection]]) -> None: ...
    @overload
    def __init__(self: "Producer[object, Raw]", **options: Unpack[KeyOptions[ClusterConnection]]) -> None: ...
    @overload
    def __init__(
        self: "Producer[Raw, object]", **options: Unpack[ValueOptions[ClusterConnection]]
    ) -> None: ...
    @overload
    def __init__(
        self: "Producer[object, object]", **options: Unpack[KeyAndValueOptions[ClusterConnection]]
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
        client: _ProducerOfThread[K_contra, V_contra] = _ProducerOfThread(
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            cluster=connection_of(cluster),
            **options,
        )
        self._session = session = client._session
        self._input = client._input
        self._is_plain = client._is_plain
        self._append = session.accumulator.append
        self._close_later = False  # A signal handler wanted it, during a send.
        super().__init__(client, "kohort-producer", cluster, session.after_fork)
        session.append_in_threads(self._loop.call_soon)

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

        Key and value are bytes, or the input of the serializers. A key chooses its partition as in every
        Kafka client; without one, partitions alternate by batch. `on_delivery` is as with
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
                key,  # type: ignore[arg-type]  # Its type was checked.
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
        """Send the records of the block as one transaction: committed at its end, aborted by an exception.

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

    init_transactions = blocking(producer.Producer.init_transactions)
    begin_transaction = blocking(producer.Producer.begin_transaction)
    send_offsets = blocking(producer.Producer.send_offsets)
    commit_transaction = blocking(producer.Producer.commit_transaction)
    abort_transaction = blocking(producer.Producer.abort_transaction)
    partitions_for = blocking(producer.Producer.partitions_for)

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send everything now, and return when the fate of each record is known.

        Raises: RequestTimeoutError at the timeout.
        """
        self._loop.check_may_wait("flush")
        if self._session.accumulator.appends():
            raise WouldBlockError("flush would wait for the send that this signal handler has interrupted")
        self._loop.call(self._flush, timeout_ms)

    def close(self, timeout_ms: float | None = None) -> None:
        """Send the remaining records, within the timeout (delivery_timeout_ms), and end.

        In a signal handler that has interrupted a `send` it returns at once, and is done by the next call of
        `send` or `close`, or at the interpreter's end. In a process that was forked off it does nothing.
        Raises: RequestTimeoutError if not everything could be sent; the rest is given up.
        """
        self._close(timeout_ms)

    def _close(self, timeout_ms: float | None = None) -> None:
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
