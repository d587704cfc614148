"""Opens logs unused since the start in a worker before the loop uses them.

After a clean stop each log is opened at its first use, which is I/O: little for one, seconds for the
thousands that a consumer names in its first request. A request that names such logs waits until they are
open, and so do later requests of its connection about records, so that none is overtaken. When all
logs are open this costs only the check of an empty set.

When a connection closes, its waiting requests are dropped: the client has given up, and asks again over
another one. Only produce requests with acks=0 are kept: their client may close its connection at once.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import structlog

from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.dispatch import Handle
from kohort.broker.transport.request import Origin, Request
from kohort.protocol.limits import PRODUCE_KEY
from kohort.protocol.schema import ZERO_UUID

NamedPartition = tuple[str | UUID, int]
"""A topic, by its name or by its id, and a partition's index."""
Names = Callable[[Any], Iterator[NamedPartition]]
"""Says which partitions a request names."""

UNANSWERED_BYTES_MAX = 32 * 1024 * 1024
"""The most bytes of requests with acks=0 that are kept for closed connections. Nothing else counts them."""

log = structlog.get_logger("kohort.partition")


class _Held(NamedTuple):
    handle: Handle
    message: Any
    request: Request
    unopened: list[Partition]


class Opening:
    """Holds requests until the logs that they name are open. The loop's thread only."""

    def __init__(self, partitions: PartitionTable, workers: Workers) -> None:
        self._table = partitions
        self._workers = workers
        self._held: dict[Origin, deque[_Held]] = {}
        self._unanswered_bytes = 0  # Of closed connections.

    def before(self, api_key: int, handle: Handle) -> Handle:
        """Return a handler that has the logs opened first which a request of this API names."""
        names = NAMES.get(api_key)
        if names is None:
            return handle
        unopened, held = self._table.opening.unopened, self._held

        def opened_first(message: Any, request: Request) -> Any:
            if not unopened and not held:
                return handle(message, request)
            return self._hold_or_handle(_Held(handle, message, request, self._unopened(names(message))))

        return opened_first

    def _hold_or_handle(self, asked: _Held) -> Any:
        connection = asked.request.connection
        waiting = self._held.get(connection)
        if waiting is not None:
            waiting.append(asked)
        elif asked.unopened:
            waiting = self._held[connection] = deque((asked,))
            drop = partial(self._drop_answered, waiting)
            connection.on_close.append(drop)  # Now: the connection may close before the task begins.
            self._workers.spawn(self._serve, connection, waiting, drop)
        else:
            return asked.handle(asked.message, asked.request)
        return None

    def _unopened(self, named: Iterable[NamedPartition]) -> list[Partition]:
        found: dict[Partition, None] = {}
        for topic, index in named:
            partition = self._table.peek(topic, index)
            if partition is not None and not partition.opened:
                found[partition] = None
        return list(found)

    async def _serve(self, connection: Origin, waiting: deque[_Held], drop: Callable[[], None]) -> None:
        """Handle the requests of the connection, in order, each when its logs are open."""
        try:
            while waiting:
                asked = waiting[0]
                if asked.unopened:
                    await self._table.opening.opened(asked.unopened)
                if waiting and waiting[0] is asked:  # It was not dropped meanwhile.
                    waiting.popleft()
                    if connection.closed:
                        self._unanswered_bytes -= _size_bytes(asked)
                    await self._handle(asked)
        finally:
            del self._held[connection]
            if drop in connection.on_close:
                connection.on_close.remove(drop)

    def _drop_answered(self, waiting: deque[_Held]) -> None:
        """Drop the requests of a connection that has closed, except those with acks=0 up to the limit."""
        asked = tuple(waiting)
        waiting.clear()
        for each in asked:
            if each.request.api.api_key == PRODUCE_KEY and not each.message.acks:
                size_bytes = _size_bytes(each)
                if self._unanswered_bytes + size_bytes <= UNANSWERED_BYTES_MAX:
                    self._unanswered_bytes += size_bytes
                    waiting.append(each)

    async def _handle(self, asked: _Held) -> None:
        try:
            answer = asked.handle(asked.message, asked.request)
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer is not None:
                asked.request.respond(answer)
        except Exception:  # The supervisor of handlers: one bug costs one connection, not the broker.
            log.exception("a handler failed", api=asked.request.api.name, host=asked.request.client_host)
            asked.request.hang_up()


def _size_bytes(asked: _Held) -> int:
    return asked.request.received.held_bytes


def _produced(message: Any) -> Iterator[NamedPartition]:
    for topic in message.topic_data:
        key = topic.name if topic.topic_id == ZERO_UUID else topic.topic_id
        for each in topic.partition_data:
            yield key, each.index


def _fetched(message: Any) -> Iterator[NamedPartition]:
    for topic in message.topics:
        key = topic.topic if topic.topic_id == ZERO_UUID else topic.topic_id
        for each in topic.partitions:
            yield key, each.partition


def _listed(message: Any) -> Iterator[NamedPartition]:
    for topic in message.topics:
        for each in topic.partitions:
            yield topic.name, each.partition_index


def _described(message: Any) -> Iterator[NamedPartition]:
    for topic in message.topics:
        for index in topic.partition_indexes:
            yield topic.name, index


def _of_epochs(message: Any) -> Iterator[NamedPartition]:
    for topic in message.topics:
        for each in topic.partitions:
            yield topic.topic, each.partition


def _shared(message: Any) -> Iterator[NamedPartition]:
    for topic in message.topics:
        for each in topic.partitions:
            yield topic.topic_id, each.partition_index


NAMES: dict[int, Names] = {
    0: _produced,
    1: _fetched,
    2: _listed,  # ListOffsets.
    21: _listed,  # DeleteRecords.
    23: _of_epochs,
    61: _described,
    78: _shared,  # ShareFetch, ShareAcknowledge.
    79: _shared,
}
