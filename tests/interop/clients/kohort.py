"""kohort's own client library behind the tests' interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.client import (
    Consumer,
    KohortError,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from kohort.client.config import ConsumerOptions as Settings
from kohort.client.config import ProducerOptions
from tests.interop.clients.interface import (
    Changes,
    Client,
    ConsumerClient,
    ConsumerOptions,
    Incoming,
    Outgoing,
    Place,
)

CONSUMER_PROTOCOL = "consumer"
"""As a strategy: the broker assigns (KIP-848)."""


class Kohort(Client):
    """The blocking clients of kohort.client."""

    name = "kohort"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Outgoing], compression: str | None = None
    ) -> list[tuple[int, int]]:
        options: ProducerOptions = {"bootstrap_servers": bootstrap}
        if compression is not None:
            options["compression_type"] = compression
        with Producer(**options) as producer:
            deliveries = [
                producer.send(
                    topic,
                    value=each.value,
                    key=each.key,
                    headers=list(each.headers),
                    timestamp_ms=each.timestamp_ms,
                    partition=each.partition,
                )
                for each in records
            ]
            producer.flush()
            return [(each.result().partition, each.result().offset) for each in deliveries]

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> ConsumerClient:
        return KohortConsumer(bootstrap, options)


class Listener(RebalanceListener):
    """Keeps what it is told."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._changes.note_assigned(places(partitions))

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._changes.note_revoked(places(partitions))


class KohortConsumer(ConsumerClient):
    """A Consumer."""

    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        self.changes = Changes()
        self.async_commits = 0
        settings: Settings = {"bootstrap_servers": bootstrap, "auto_offset_reset": options.start}
        if options.group is not None:
            settings["group_id"] = options.group
        if options.session_timeout_ms is not None:
            settings["session_timeout_ms"] = options.session_timeout_ms
            settings["heartbeat_interval_ms"] = options.session_timeout_ms // 4
        if options.instance_id is not None:
            settings["group_instance_id"] = options.instance_id
        if options.strategy == CONSUMER_PROTOCOL:
            settings["group_protocol"] = CONSUMER_PROTOCOL
        elif options.strategy is not None:
            settings["partition_assignment_strategy"] = options.strategy
        if options.auto_commit is not None:
            settings["enable_auto_commit"] = options.auto_commit
        self._consumer = Consumer(*options.topics, listener=Listener(self.changes), **settings)
        if options.assigned:
            self._consumer.assign(*map(partition, options.assigned))

    def poll(self, timeout_s: float) -> list[Incoming]:
        return [
            Incoming(
                place=Place(each.topic, each.partition),
                offset=each.offset,
                key=each.key,
                value=each.value,
                headers=each.headers,
                timestamp_ms=each.timestamp_ms,
            )
            for each in self._consumer.poll(timeout_ms=timeout_s * 1000)
        ]

    def assignment(self) -> frozenset[Place]:
        return places(self._consumer.assignment())

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        named = None
        if offsets is not None:
            named = {partition(place): OffsetAndMetadata(offset) for place, offset in offsets.items()}
        self._consumer.commit(named)

    def commit_async(self) -> None:
        def committed(_offsets: object, error: KohortError | None) -> None:
            if error is None:
                self.async_commits += 1

        self._consumer.commit_async(callback=committed)

    def committed(self, place: Place) -> int | None:
        found = self._consumer.committed(partition(place))[partition(place)]
        return None if found is None else found.offset

    def position(self, place: Place) -> int:
        return self._consumer.position(partition(place))

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(partition(place), offset)

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        found = self._consumer.offsets_for_times({partition(place): timestamp_ms})[partition(place)]
        return None if found is None else found.offset

    def bounds(self, place: Place) -> tuple[int, int]:
        where = partition(place)
        return self._consumer.beginning_offsets(where)[where], self._consumer.end_offsets(where)[where]

    def close(self) -> None:
        self._consumer.close()


def partition(place: Place) -> TopicPartition:
    """Return the place as the library names it."""
    return TopicPartition(place.topic, place.partition)


def places(partitions: Sequence[TopicPartition]) -> frozenset[Place]:
    """Return the places of these partitions."""
    return frozenset(Place(each.topic, each.partition) for each in partitions)
