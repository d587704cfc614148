"""The asynchronous producer, under trio and asyncio."""

from collections.abc import Generator
from types import TracebackType
from typing import Self, Unpack

import anyio

from kohort.client.accumulator import Appended, Headers
from kohort.client.config import ProducerOptions, producer_config
from kohort.client.producer_session import ProducerSession, outgoing
from kohort.client.values import RecordMetadata


class Delivery:
    """A record on its way. `await` it for its RecordMetadata; that raises a KohortError if it failed."""

    __slots__ = ("_appended",)

    def __init__(self, appended: Appended) -> None:
        self._appended = appended

    @property
    def is_done(self) -> bool:
        """Whether the record's fate is known."""
        return self._appended.batch.is_done

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        appended = self._appended
        yield from appended.batch.wait().__await__()
        return appended.batch.metadata_of(appended.index, appended.timestamp_ms)


class Producer:
    """Writes records.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("flights", value=b"...", key=b"UA")
        written = await delivery

    Inside `async with` only; any number of tasks may send. Leaving the block flushes.
    """

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._session = ProducerSession(producer_config(options))

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                with anyio.move_on_after(self._session.config.delivery_timeout_ms / 1000):
                    await self._session.flush()
        finally:
            await self._session.__aexit__(kind, error, trace)

    async def send(
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
        record = outgoing(
            topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
        )
        return Delivery(await self._session.append(record))

    async def flush(self) -> None:
        """Send everything now, and return when the fate of each record is known."""
        await self._session.flush()

    async def partitions_for(self, topic: str) -> tuple[int, ...]:
        """Return the numbers of a topic's partitions."""
        return await self._session.partitions_for(topic)
