"""`__group_events`: what happened in every group, one JSON record an event, the group's id as the key.

Nobody waits for these records. Events are collected for a few milliseconds, go to the log as one batch, and
are not synced: the group path only appends to a list. Events can be lost: those of the last moments
before the process was killed or the machine stopped, and those noted while the log cannot be
written, beyond `EVENTS_WAITING_MAX` of them. The latter are counted. The decisions of a group never depend
on this topic.
"""

from collections import deque
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.group import Event, coordinator_partition
from kohort.broker.metadata import GROUP_EVENTS_TOPIC, TopicState
from kohort.broker.partitions import Partition
from kohort.protocol.errors import ApiError
from kohort.protocol.records import RecordFields, build_batch
from kohort.storage import StorageError

LINGER_MS = 10
RETRY_MS = 5_000
EVENTS_WAITING_MAX = 20_000
EVENTS_PER_WRITE = 256
BATCH_BYTES_MAX = 512 * 1024
TIMER = "write group events"

log = structlog.get_logger("kohort.group")


class GroupEventLog:
    """Takes events and writes them later. All methods belong to the loop's thread."""

    def __init__(
        self,
        services: CoordinatorServices,
        *,
        is_enabled: bool,
        ensure_topic: Callable[[], Awaitable[TopicState]],
        counters: GroupCounters,
    ) -> None:
        """`ensure_topic` returns `__group_events`, made if need be; it raises ApiError if it can't be."""
        self._table = services.partitions
        self._is_enabled = is_enabled
        self._ensure_topic = ensure_topic
        self._flusher = services.flusher
        self._timers = services.timers
        self._clock = services.clock
        self._workers = services.workers
        self._counters = counters
        self._waiting: deque[Event] = deque()
        self._is_armed = False  # A timer is set, or a task makes the topic ready and sets one.

    def note(self, event: Event) -> None:
        """Keep the event for the next write; dropped, and counted, where too many wait already."""
        if not self._is_enabled:
            return
        if len(self._waiting) >= EVENTS_WAITING_MAX:
            self._counters.group_events_dropped += 1
            return
        self._waiting.append(event)
        if not self._is_armed:
            self._write_in(LINGER_MS)

    def close(self) -> None:
        """Stage what waits, if the topic is there: closing the logs writes it."""
        partitions = self._partitions()
        while self._waiting and partitions:
            self._write_some(partitions)

    def _write_in(self, delay_ms: int) -> None:
        self._is_armed = True
        self._timers.set(TIMER, self._clock.now_ms() + delay_ms, self._write)

    def _write(self) -> None:
        self._is_armed = False
        partitions = self._partitions()
        if not partitions:
            self._is_armed = True
            self._workers.spawn(self._prepare)
            return
        self._write_some(partitions)
        if self._waiting:
            self._write_in(LINGER_MS)

    def _partitions(self) -> tuple[Partition, ...]:
        """Return the topic's partitions if all of them can be written, else none."""
        partitions = self._table.of_topic(GROUP_EVENTS_TOPIC)
        return partitions if all(each.serving_log is not None for each in partitions) else ()

    async def _prepare(self) -> None:
        """Make the topic and open its logs; where that fails, try again later."""
        try:
            topic = await self._ensure_topic()
            led = [index for index in range(len(topic.partitions)) if self._table.leads(topic.name, index)]
            for index in led:
                await self._table.opened(GROUP_EVENTS_TOPIC, index)
        except (ApiError, StorageError) as error:
            log.warning("group events can't be written", topic=GROUP_EVENTS_TOPIC, error=str(error))
            self._write_in(RETRY_MS)
        except Exception:  # A supervisor: optional records must not end the broker.
            log.exception("group events can't be written", topic=GROUP_EVENTS_TOPIC)
            self._write_in(RETRY_MS)
        else:
            if led:
                self._write_in(0)
            else:  # Another broker of the cluster leads the topic: here nobody can write it.
                self._counters.group_events_dropped += len(self._waiting)
                self._waiting.clear()
                self._is_armed = False

    def _write_some(self, partitions: tuple[Partition, ...]) -> None:
        """Stage a batch for each partition; the next round's flush writes them."""
        records: dict[int, list[RecordFields]] = {}
        size_bytes = 0
        for _ in range(min(len(self._waiting), EVENTS_PER_WRITE)):
            if size_bytes >= BATCH_BYTES_MAX:
                break
            event = self._waiting.popleft()
            value = msgspec.json.encode(event)
            size_bytes += len(value)
            index = coordinator_partition(event.group_id, len(partitions))
            records.setdefault(index, []).append((event.at_ms, event.group_id.encode(), value, ()))
        for index, batch in records.items():
            self._append(partitions[index], batch)

    def _append(self, partition: Partition, records: list[RecordFields]) -> None:
        counters = self._counters
        try:
            partition.append_own(build_batch(records))
        except StorageError:  # The partition has said so itself, and is opened again in a while.
            counters.group_events_dropped += len(records)
            return
        counters.group_events += len(records)
        self._flusher.request(partition, _written)


def _written(error: StorageError | None) -> None:
    """Nobody waits; a failed flush is logged and counted by the flusher."""
