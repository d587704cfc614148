"""The blocking producer."""

from types import TracebackType
from typing import Self, Unpack

import anyio

from kohort.client.accumulator import Appended, Headers
from kohort.client.config import ProducerOptions, producer_config
from kohort.client.errors import RequestTimeoutError
from kohort.client.loop_thread import LoopThread, close_at_exit
from kohort.client.producer_session import ProducerSession, outgoing
from kohort.client.values import RecordMetadata


class Delivery:
    """A record on its way: ask `result()` where it went."""

    __slots__ = ("_appended", "_loop")

    def __init__(self, appended: Appended, loop: LoopThread[ProducerSession]) -> None:
        self._appended = appended
        self._loop = loop

    @property
    def is_done(self) -> bool:
        """Whether the record's fate is known."""
        return self._appended.batch.is_done

    def result(self, timeout_ms: float | None = None) -> RecordMetadata:
        """Return where the record was written, once it is.

        Raises: KohortError if it was not; RequestTimeoutError when the time is over.
        """
        appended = self._appended
        if not appended.batch.is_done:
            self._loop.call(self._wait, timeout_ms)
        return appended.batch.metadata_of(appended.index, appended.timestamp_ms)

    async def _wait(self, timeout_ms: float | None) -> None:
        try:
            with anyio.fail_after(None if timeout_ms is None else timeout_ms / 1000):
                await self._appended.batch.wait()
        except TimeoutError:
            raise RequestTimeoutError(f"the record was not written in {timeout_ms} ms") from None


class Producer:
    """Writes records.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("flights", value=b"...", key=b"UA")

    Any number of threads may send. `close`, or the end of the block, flushes.
    """

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._session = ProducerSession(producer_config(options))
        self._loop = LoopThread(self._session, "kohort-producer")
        self._not_at_exit = close_at_exit(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Return a record's delivery as soon as it has a place in a batch.

        A key chooses its partition as every Kafka client does; without one, partitions take turns by
        the batch. Raises: KohortError when the topic can't be found or there is no room in time.
        """
        loop = self._loop
        loop.check_running()
        record = outgoing(
            topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
        )
        appended = self._session.try_append(record)
        if appended is None:
            appended = loop.call(self._session.append, record)
        elif appended.wakes:
            loop.call_soon(self._session.sender.wake)
        return Delivery(appended, loop)

    def flush(self, timeout_ms: float | None = None) -> None:
        """Send everything now, and return when the fate of each record is known.

        Raises: RequestTimeoutError when the time is over.
        """
        self._loop.call(self._flush, timeout_ms)

    def partitions_for(self, topic: str) -> tuple[int, ...]:
        """Return the numbers of a topic's partitions."""
        return self._loop.call(self._session.partitions_for, topic)

    def close(self, timeout_ms: float | None = None) -> None:
        """Send what is left, within the time (delivery_timeout_ms), and end."""
        self._not_at_exit()
        if not self._loop.is_running:
            return
        try:
            self.flush(self._session.config.delivery_timeout_ms if timeout_ms is None else timeout_ms)
        finally:
            self._loop.stop()

    async def _flush(self, timeout_ms: float | None) -> None:
        try:
            with anyio.fail_after(None if timeout_ms is None else timeout_ms / 1000):
                await self._session.flush()
        except TimeoutError:
            raise RequestTimeoutError(f"not everything was written in {timeout_ms} ms") from None
