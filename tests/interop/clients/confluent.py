"""confluent-kafka behind the tests' interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

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
POLL_RECORDS = 500


class Confluent(Client):
    """librdkafka by way of its Python binding."""

    name = "confluent-kafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Outgoing], compression: str | None = None
    ) -> list[tuple[int, int]]:
        config = {"bootstrap.servers": bootstrap}
        if compression is not None:
            config["compression.type"] = compression
        producer = Producer(config)
        answers: list[tuple[int, int] | None] = [None] * len(records)
        refused: list[KafkaError] = []
        for index, record in enumerate(records):

            def delivered(error: KafkaError | None, message: Message, index: int = index) -> None:
                if error is not None:
                    refused.append(error)
                else:
                    answers[index] = (message.partition() or 0, message.offset() or 0)

            produce_one(producer, topic, record, delivered)
        assert producer.flush(TIMEOUT_S) == 0, "not everything was answered"
        if refused:
            raise KafkaException(refused[0])
        return [answer for answer in answers if answer is not None]

    def consumer(self, bootstrap: str, options: ConsumerOptions) -> ConsumerClient:
        return ConfluentConsumer(bootstrap, options)


def produce_one(producer: Producer, topic: str, record: Outgoing, delivered: object) -> None:
    """Hand a record to the client; only what the record names is passed on."""
    named: dict[str, object] = {}
    if record.timestamp_ms is not None:
        named["timestamp"] = record.timestamp_ms
    if record.partition is not None:
        named["partition"] = record.partition
    if record.headers:
        named["headers"] = list(record.headers)
    producer.produce(topic, record.value, record.key, on_delivery=delivered, **named)  # type: ignore[arg-type]
    producer.poll(0)


class ConfluentConsumer(ConsumerClient):
    """A Consumer. librdkafka needs a group id even for a consumer that joins no group."""

    def __init__(self, bootstrap: str, options: ConsumerOptions) -> None:
        self.changes = Changes()
        self.async_commits = 0
        self._consumer = Consumer(self._config(bootstrap, options))
        if options.topics:
            self._consumer.subscribe(
                list(options.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
        if options.assigned:  # Without a group there is no committed offset to ask for first.
            start = OFFSET_BEGINNING if options.start == "earliest" else OFFSET_END
            self._consumer.assign(
                [TopicPartition(each.topic, each.partition, start) for each in options.assigned]
            )

    def _config(self, bootstrap: str, options: ConsumerOptions) -> dict[str, object]:
        config: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": options.group or "no-group",
            "auto.offset.reset": options.start,
            "on_commit": self._committed,
        }
        if options.session_timeout_ms is not None:
            config["session.timeout.ms"] = options.session_timeout_ms
            config["heartbeat.interval.ms"] = options.session_timeout_ms // 4
        if options.instance_id is not None:
            config["group.instance.id"] = options.instance_id
        if options.strategy is not None:
            config["partition.assignment.strategy"] = options.strategy
        if options.auto_commit is not None:
            config["enable.auto.commit"] = options.auto_commit
        elif options.group is None:
            config["enable.auto.commit"] = False
        return config

    def poll(self, timeout_s: float) -> list[Incoming]:
        messages = self._consumer.consume(POLL_RECORDS, timeout_s)
        return [incoming(message) for message in messages if message.error() is None]

    def assignment(self) -> frozenset[Place]:
        return places(self._consumer.assignment())

    def commit(self, offsets: Mapping[Place, int] | None = None) -> None:
        if offsets is None:
            self._consumer.commit(asynchronous=False)
            return
        named = [TopicPartition(each.topic, each.partition, offset) for each, offset in offsets.items()]
        answers = self._consumer.commit(offsets=named, asynchronous=False) or []
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)

    def commit_async(self) -> None:
        self._consumer.commit(asynchronous=True)

    def committed(self, place: Place) -> int | None:
        partition = TopicPartition(place.topic, place.partition)
        offset = self._consumer.committed([partition], TIMEOUT_S)[0].offset
        return None if offset == OFFSET_INVALID else offset

    def position(self, place: Place) -> int:
        return self._consumer.position([TopicPartition(place.topic, place.partition)])[0].offset

    def seek(self, place: Place, offset: int) -> None:
        self._consumer.seek(TopicPartition(place.topic, place.partition, offset))

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        asked = [TopicPartition(place.topic, place.partition, timestamp_ms)]
        offset = self._consumer.offsets_for_times(asked, TIMEOUT_S)[0].offset
        return None if offset < 0 else offset

    def bounds(self, place: Place) -> tuple[int, int]:
        where = TopicPartition(place.topic, place.partition)
        bounds = self._consumer.get_watermark_offsets(where, TIMEOUT_S)
        return int(bounds[0]), int(bounds[1])

    def close(self) -> None:
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.changes.note_assigned(places(partitions))

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.changes.note_revoked(places(partitions))

    def _committed(self, error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
        if error is None:
            self.async_commits += 1


def places(partitions: Sequence[TopicPartition]) -> frozenset[Place]:
    """Return the places of these partitions."""
    return frozenset(Place(each.topic, each.partition) for each in partitions)


def incoming(message: Message) -> Incoming:
    """Return a message in the tests' form."""
    kind, timestamp_ms = message.timestamp()
    return Incoming(
        place=Place(message.topic() or "", message.partition() or 0),
        offset=message.offset() or 0,
        key=as_bytes(message.key()),
        value=as_bytes(message.value()),
        headers=tuple((str(each[0]), as_bytes(each[1])) for each in message.headers() or ()),
        timestamp_ms=-1 if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
    )


def as_bytes(data: bytes | str | None) -> bytes | None:
    """Return the bytes: without a deserializer there is never a text."""
    assert not isinstance(data, str)
    return data
