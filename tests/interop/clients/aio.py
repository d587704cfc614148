"""aiokafka behind the tests' interface: its loop runs in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.interop.clients.interface import (
    Changes,
    Client,
    ConsumerClient,
    ConsumerOptions,
    Incoming,
    Outgoing,
    Place,
)

TIMEOUT_S = 15.0
ASSIGNORS = {
    each.name: each for each in (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
}

T = TypeVar("T")


class Aiokafka(Client):
    """The asyncio client."""

    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Outgoing], compression: str | None = None
    ) -> list[tuple[int, int]]:
        return asyncio.run(self._produce(bootstrap, topic, records, compression))

    async def _produce(
        self, bootstrap: str, topic: str, records: Sequence[Outgoing], compression: str | None
    ) -> list[tuple[int, int]]:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression)
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in records
            ]
            answers = await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_S)
        finally:
            await producer.stop()
        return [(answer.partition, answer.offset) for answer in answers]

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> ConsumerClient:
        return AiokafkaConsumer(bootstrap, options)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # The library is untyped.
    """Keeps what it is told."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._changes.note_revoked(places(revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._changes.note_assigned(places(assigned))


class AiokafkaConsumer(ConsumerClient):
    """An AIOKafkaConsumer."""

    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        self.changes = Changes()
        self.async_commits = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._commits: set[asyncio.Task[None]] = set()
        self._consumer = self._run(self._start(bootstrap, options))

    async def _start(self, bootstrap: str, options: ConsumerOptions) -> AIOKafkaConsumer:
        config: dict[str, object] = {"bootstrap_servers": bootstrap, "auto_offset_reset": options.start}
        if options.group is not None:
            config["group_id"] = options.group
        if options.session_timeout_ms is not None:
            config["session_timeout_ms"] = options.session_timeout_ms
            config["heartbeat_interval_ms"] = options.session_timeout_ms // 4
        if options.instance_id is not None:
            config["group_instance_id"] = options.instance_id
        if options.strategy is not None:
            config["partition_assignment_strategy"] = (ASSIGNORS[options.strategy],)
        if options.auto_commit is not None:
            config["enable_auto_commit"] = options.auto_commit
        consumer = AIOKafkaConsumer(**config)
        if options.topics:
            consumer.subscribe(list(options.topics), listener=Listener(self.changes))
        if options.assigned:
            consumer.assign([partition(each) for each in options.assigned])
        await consumer.start()
        return consumer

    def poll(self, timeout_s: float) -> list[Incoming]:
        batches = self._run(self._consumer.getmany(timeout_ms=int(timeout_s * 1000)))
        return [
            Incoming(
                place=Place(record.topic, record.partition),
                offset=record.offset,
                key=record.key,
                value=record.value,
                headers=tuple(record.headers),
                timestamp_ms=record.timestamp,
            )
            for batch in batches.values()
            for record in batch
        ]

    def assignment(self) -> frozenset[Place]:
        return places(self._consumer.assignment())

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        if offsets is None:
            self._run(self._consumer.commit())
        else:
            self._run(self._consumer.commit({partition(place): each for place, each in offsets.items()}))

    def commit_async(self) -> None:
        async def commit() -> None:
            await self._consumer.commit()
            self.async_commits += 1

        async def begin() -> None:
            task = asyncio.ensure_future(commit())
            self._commits.add(task)
            task.add_done_callback(self._commits.discard)

        self._run(begin())

    def committed(self, place: Place) -> int | None:
        offset: int | None = self._run(self._consumer.committed(partition(place)))
        return offset

    def position(self, place: Place) -> int:
        return int(self._run(self._consumer.position(partition(place))))

    def seek(self, place: Place, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(partition(place), offset)

        self._run(seek())

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        answer = self._run(self._consumer.offsets_for_times({partition(place): timestamp_ms}))
        found = answer[partition(place)]
        return None if found is None else int(found.offset)

    def bounds(self, place: Place) -> tuple[int, int]:
        where = partition(place)
        low = self._run(self._consumer.beginning_offsets([where]))[where]
        return low, self._run(self._consumer.end_offsets([where]))[where]

    def close(self) -> None:
        try:
            self._run(self._consumer.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(4 * TIMEOUT_S)


def partition(place: Place) -> TopicPartition:
    """Return the place as the library names it."""
    return TopicPartition(place.topic, place.partition)


def places(partitions: Iterable[TopicPartition]) -> frozenset[Place]:
    """Return the places of these partitions."""
    return frozenset(Place(each.topic, each.partition) for each in partitions)
