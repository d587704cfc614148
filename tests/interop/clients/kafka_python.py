"""kafka-python behind the tests' interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import OffsetAndMetadata

from tests.interop.clients.interface import (
    Changes,
    Client,
    ConsumerClient,
    ConsumerOptions,
    Incoming,
    Outgoing,
    Place,
)

METADATA_MAX_AGE_MS = 2_000
TIMEOUT_S = 15.0
ASSIGNORS = {
    each.name: each
    for each in (
        RangePartitionAssignor,
        RoundRobinPartitionAssignor,
        StickyPartitionAssignor,
        CooperativeStickyAssignor,
    )
}


class KafkaPython(Client):
    """The pure Python client."""

    name = "kafka-python"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Outgoing], compression: str | None = None
    ) -> list[tuple[int, int]]:
        producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression)
        try:
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(TIMEOUT_S)
            answers = [future.get(TIMEOUT_S) for future in futures]
        finally:
            producer.close(TIMEOUT_S)
        return [(answer.partition, answer.offset) for answer in answers]

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> ConsumerClient:
        return KafkaPythonConsumer(bootstrap, options)


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # The library is untyped.
    """Keeps what it is told."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._changes.note_revoked(places(revoked))

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._changes.note_assigned(places(assigned))


class KafkaPythonConsumer(ConsumerClient):
    """A KafkaConsumer."""

    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        self.changes = Changes()
        self.async_commits = 0
        config: dict[str, object] = {
            "bootstrap_servers": bootstrap,
            "auto_offset_reset": options.start,
            # On a busy machine it may lead its group before it knows the topic's partitions, hands out
            # nothing, and looks again when its metadata are old: after five minutes by default.
            "metadata_max_age_ms": METADATA_MAX_AGE_MS,
        }
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
        self._consumer = KafkaConsumer(**config)
        if options.topics:
            self._consumer.subscribe(list(options.topics), listener=Listener(self.changes))
        if options.assigned:
            self._consumer.assign([partition(each) for each in options.assigned])

    def poll(self, timeout_s: float) -> list[Incoming]:
        batches = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
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
        self._consumer.commit(None if offsets is None else with_metadata(offsets))

    def commit_async(self) -> None:
        def answered(_offsets: object, answer: object) -> None:
            if not isinstance(answer, Exception):
                self.async_commits += 1

        self._consumer.commit_async(callback=answered)

    def committed(self, place: Place) -> int | None:
        offset: int | None = self._consumer.committed(partition(place))
        return offset

    def position(self, place: Place) -> int:
        return int(self._consumer.position(partition(place)))

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(partition(place), offset)

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        answer = self._consumer.offsets_for_times({partition(place): timestamp_ms})[partition(place)]
        return None if answer is None else int(answer.offset)

    def bounds(self, place: Place) -> tuple[int, int]:
        where = partition(place)
        return self._consumer.beginning_offsets([where])[where], self._consumer.end_offsets([where])[where]

    def close(self) -> None:
        self._consumer.close()


def partition(place: Place) -> TopicPartition:
    """Return the place as the library names it."""
    return TopicPartition(place.topic, place.partition)


def places(partitions: Iterable[TopicPartition]) -> frozenset[Place]:
    """Return the places of these partitions."""
    return frozenset(Place(each.topic, each.partition) for each in partitions)


def with_metadata(offsets: Mapping[Place, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets as the library commits them."""
    return {partition(place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
