"""A region's log as a process has it: followed in the background, and written to."""

import logging
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from kohort.client.admin_values import NewTopic
from kohort.client.aio import Admin, Consumer, Producer
from kohort.client.config import ConsumerOptions
from kohort.client.errors import ItemsError, KohortError
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.queues.options import producer_options, reader_options, shared_options
from kohort.queues.region.coordinating import Region
from kohort.queues.region.entries import Entry, EntryError, decode, encode, key_of
from kohort.queues.region.view import RegionView

logger = logging.getLogger(__name__)

RETRY_S = 0.2
COMPACTED = {"cleanup.policy": "compact"}


class RegionLog:
    """async with RegionLog(region, options) as log: all of it has been read, and what comes is read, too."""

    def __init__(self, region: Region, options: ConsumerOptions) -> None:
        self.view = RegionView()
        self.position = 0
        self._partition = TopicPartition(region.log_topic, 0)
        self._region = region
        self._options = options
        self._stack = AsyncExitStack()
        self._read = anyio.Event()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await ensure_topics(self._region, self._options)
            self._producer = await stack.enter_async_context(
                Producer(**producer_options(self._options, linger_ms=0))
            )
            self._reader = await stack.enter_async_context(
                Consumer[bytes, bytes](**reader_options(self._options))
            )
            self._reader.assign(self._partition)
            self._reader.seek_to_beginning(self._partition)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(self._follow)
            await self.catch_up()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def write(self, entry: Entry) -> int:
        """Return the offset of this entry once it is kept. Raises: KohortError."""
        delivery = await self._producer.send(
            self._partition.topic, encode(entry), key=key_of(entry), partition=0
        )
        return (await delivery).offset

    async def catch_up(self) -> None:
        """Return once all has been read that is there now. Raises: KohortError."""
        async with Consumer[bytes, bytes](**reader_options(self._options)) as asking:
            end = (await asking.end_offsets(self._partition))[self._partition]
        await self.reach(end)

    async def reach(self, position: int) -> None:
        """Return once everything before this offset has been read."""
        while self.position < position:
            await self._read.wait()

    async def _follow(self) -> None:
        while True:
            try:
                await self._take(timeout_ms=1_000)
            except KohortError as error:
                if not error.retriable:
                    raise
                logger.warning("the log of region %s cannot be read: %s", self._region.name, str(error))
                await anyio.sleep(RETRY_S)

    async def _take(self, timeout_ms: float) -> None:
        for record in await self._reader.poll(timeout_ms=timeout_ms):
            if record.value is None:
                continue
            try:
                self.view.take(record.offset, decode(record.key, record.value))
            except EntryError as error:
                logger.warning("%s at %s: %s", self._partition.topic, record.offset, str(error))
        self.position = await self._reader.position(self._partition)
        self._read.set()
        self._read = anyio.Event()


async def ensure_topics(region: Region, options: ConsumerOptions) -> None:
    """Have the region's log and its states' topic made where they are missing. Raises: KohortError."""
    async with Admin(**shared_options(options)) as admin:
        there = set(await admin.list_topics(include_internal=True))
        names = [each for each in (region.log_topic, region.states_topic) if each not in there]
        if not names:
            return
        try:
            await admin.create_topics(*(NewTopic(each, partitions=1, configs=COMPACTED) for each in names))
        except ItemsError as error:
            for each in error.errors.values():
                if each.code != ErrorCode.TOPIC_ALREADY_EXISTS:  # Others start at the same time.
                    raise
