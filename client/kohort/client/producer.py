"""The asynchronous producer, under trio and asyncio."""

import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import ClassVar, Generic, Never, Self, Unpack, overload

import anyio
import anyio.lowlevel

from kohort.client.arguments import DELIVERYS_METHODS, PRODUCERS_METHODS, OtherNames, by_name_alone
from kohort.client.async_client import AsyncClient
from kohort.client.batch import Appended
from kohort.client.cluster_connection import ClusterConnection, hub_of, options_with
from kohort.client.config import ProducerOptions, Serializer, producer_config
from kohort.client.home_loop import HomeLoop
from kohort.client.producer_options import KeyAndValueOptions, KeyOptions, PlainOptions, ValueOptions
from kohort.client.producer_session import ProducerSession
from kohort.client.record_input import (
    HeadersInput,
    K_contra,
    Raw,
    RecordInput,
    V_contra,
    checked_headers,
    checked_timestamp,
)
from kohort.client.values import GroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition

_now_ns = time.time_ns


class Delivery(Appended, OtherNames, frozen=True, gc=False):
    """A record that is being sent.

    `await` it for its RecordMetadata; that raises a KohortError if it failed.
    """

    _called_here = DELIVERYS_METHODS

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        batch, index = self.batch.locate(self.index)
        while not batch.is_done:
            yield from batch.wait().__await__()
            batch, index = batch.locate(index)
        return batch.metadata_of(index, self.timestamp_ms)

    def result(self) -> RecordMetadata:
        """Return where the record was written, if it `is_done`. Raises: KohortError if it was not."""
        return self.known_metadata()

    def add_done_callback(self, callback: "Callable[[Delivery], None]") -> None:
        """Call `callback` with this delivery when the record's fate is known, or now if it is."""
        self.when_done(lambda: callback(self))


class Producer(AsyncClient[ProducerSession], OtherNames, Generic[K_contra, V_contra]):
    """Writes records.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("flights", value=b"...", key=b"UA")
        written = await delivery

    Inside `async with`, or between `start` and `stop`; any number of tasks of one event loop may send.
    Leaving the block flushes, also after an exception; only if it is cancelled, unwritten records are
    given up, with a warning.
    """

    _called_here: ClassVar[Mapping[str, str]] = {**PRODUCERS_METHODS, "close": "stop"}
    _delivery_type: type[Appended] = Delivery

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
        serializers = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        config = producer_config(options_with(cluster, options, **serializers))
        self._input = RecordInput(config)
        self._is_plain = self._input.is_plain and config.transactional_id is None
        super().__init__(ProducerSession(config, self._input, self._delivery_type, hub_of(cluster)), cluster)
        self._home: HomeLoop | None = None

    def __repr__(self) -> str:
        return f"<aio.Producer {self._session.describe()}>"

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._session.accumulator.home = self._home = HomeLoop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # If cancelled, its own tasks are too: no task is left to send.
            if kind is None or not issubclass(kind, anyio.get_cancelled_exc_class()):
                with anyio.move_on_after(self._session.config.delivery_timeout_ms / 1000):
                    await self._session.flush()
        finally:
            await super().__aexit__(kind, error, trace)

    async def send(
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
        accumulator = self._session.accumulator
        if accumulator.is_woken:
            self._check_loop()
            # Before anything is kept: once for each batch, so that it can be sent.
            await anyio.lowlevel.checkpoint()
        if self._is_plain and type(value) is bytes and (key is None or type(key) is bytes):
            timestamp_ms = _now_ns() // 1_000_000 if timestamp_ms is None else checked_timestamp(timestamp_ms)
            headers = checked_headers(headers) if headers else ()
            appended = accumulator.append(
                topic,
                value,
                key,  # type: ignore[arg-type]  # Its type was looked at.
                partition,
                timestamp_ms,
                headers,
            )
            if appended is None:
                record = self._input.record(topic, value, key, partition, timestamp_ms, headers)
                appended = await self._session.append(record)
        else:
            record = self._input.record(topic, value, key, partition, timestamp_ms, headers)
            appended = self._session.try_append(record) or await self._session.append(record)
        assert isinstance(appended, Delivery)
        if on_delivery is not None:
            appended.add_done_callback(on_delivery)
        return appended

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Send the records of the block as one transaction: committed at its end, aborted by an exception.

        Raises: TransactionFailedError where something could not be written (all of it is aborted then);
        ProducerFencedError where another producer has the transactional id by now.
        """
        await self.begin_transaction()
        try:
            yield
            await self._session.end_transaction(is_commit=True)
        except BaseException as failure:
            await self._session.abort_after_failure(failure)
            raise

    async def init_transactions(self) -> None:
        """Fence every other producer of this transactional id, and end its open transaction.

        The first `begin_transaction` does it, too.
        """
        self._check_loop()
        await self._session.init_transactions()

    async def begin_transaction(self) -> None:
        """Begin a transaction; `transaction()` does it in a block."""
        self._check_loop()
        await self._session.begin_transaction()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets with the transaction: the next ones to read, as a consumer commits them.

        `group` is the consumer's `group_metadata()`: a removed member's offsets are refused.
        """
        self._check_loop()
        await self._session.send_offsets(offsets, group)

    async def commit_transaction(self) -> None:
        """Write everything, and commit. Raises: TransactionFailedError where it has to be aborted instead."""
        self._check_loop()
        await self._session.end_transaction(is_commit=True)

    async def abort_transaction(self) -> None:
        """Let nothing of the transaction count."""
        self._check_loop()
        await self._session.end_transaction(is_commit=False)

    async def flush(self) -> None:
        """Send everything now, and return when the fate of each record is known."""
        self._check_loop()
        await self._session.flush()

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """Return the numbers of a topic's partitions."""
        self._check_loop()
        return await self._session.partitions_for(topic)

    def _check_loop(self) -> None:
        """Return in the event loop that this was opened in. Raises: ConcurrentAccessError."""
        if self._home is not None:
            self._home.check()
