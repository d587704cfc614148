"""Where members' states are kept: a compacted topic beside the region's log, or files."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Protocol, Self

from kohort.client.aio import Consumer, Producer
from kohort.client.config import ConsumerOptions
from kohort.client.errors import KohortError
from kohort.client.values import TopicPartition
from kohort.queues.options import producer_options, reader_options
from kohort.queues.region.coordinating import Region
from kohort.queues.scanning import scan


class StateLostError(KohortError):
    """A state that a checkpoint names is not there any more."""


class States(Protocol):
    """Keeps states under keys that are never used twice, until they are dropped."""

    async def save(self, key: str, state: bytes) -> str:
        """Return where the state is, once it is kept. Raises: KohortError."""
        ...

    async def load(self, saved: str) -> bytes:
        """Return the state that was saved there. Raises: StateLostError, KohortError."""
        ...

    async def drop(self, saved: str) -> None:
        """Keep it no longer. Raises: KohortError."""


class TopicStates:
    """Keeps each state as a record. What it returns for one is its offset and its key."""

    def __init__(self, region: Region, options: ConsumerOptions) -> None:
        self._partition = TopicPartition(region.states_topic, 0)
        self._options = options
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._producer = await stack.enter_async_context(
                Producer(**producer_options(self._options, linger_ms=0))
            )
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def save(self, key: str, state: bytes) -> str:
        """Return where the state is, once it is kept. Raises: KohortError."""
        delivery = await self._producer.send(self._partition.topic, state, key=key.encode(), partition=0)
        return f"{(await delivery).offset}:{key}"

    async def load(self, saved: str) -> bytes:
        """Return the state that was saved there. Raises: StateLostError, KohortError."""
        offset = int(saved.partition(":")[0])
        async with Consumer[bytes, bytes](**reader_options(self._options)) as reader:
            async for record in scan(reader, self._partition, offset, offset + 1):
                if record.value is not None:
                    return record.value
        raise StateLostError(f"no state at {saved} of {self._partition.topic}")

    async def drop(self, saved: str) -> None:
        """Let compaction take it. Raises: KohortError."""
        key = saved.partition(":")[2].encode()
        await (await self._producer.send(self._partition.topic, None, key=key, partition=0))
