"""The topic of flights: made, filled, and looked at through the group's committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from examples.flights import settings
from examples.flights.dataset import Flight
from kohort.client import Admin, KohortError, ResourceType

FLUSH_TIMEOUT_S = 60.0
REQUEST_TIMEOUT_S = 5.0
PROGRESS_EVERY = 2_000


def create(bootstrap: str) -> None:
    """Create the topic and return when the broker has it."""
    new = NewTopic(settings.TOPIC, num_partitions=settings.PARTITIONS, replication_factor=1)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # Ends what it asked for when it is collected.
    admin.create_topics([new])[settings.TOPIC].result(REQUEST_TIMEOUT_S)


def set_up_group(bootstrap: str, kind: str) -> None:
    """Give the group the settings of its kind."""
    values = settings.GROUP_SETTINGS[kind]
    if values:
        with Admin(bootstrap_servers=bootstrap) as own:
            own.alter_configs(ResourceType.GROUP, settings.GROUP, values=values)


def shared_lag(bootstrap: str) -> int | None:
    """Return how many flights the share group has not done with; None while nobody can say."""
    try:
        with Admin(bootstrap_servers=bootstrap, default_api_timeout_ms=2_000) as own:
            found = own.list_share_group_offsets(settings.GROUP)
    except KohortError:
        return None
    if len(found) < settings.PARTITIONS or any(each.lag is None for each in found.values()):
        return None
    return sum(each.lag or 0 for each in found.values())


def load(bootstrap: str, flights: Iterable[Flight], advance: Callable[[int], None]) -> int:
    """Produce all flights keyed by carrier; return how many the broker acknowledged.

    Raises: KafkaException for the first one that it refused.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 20})
    encode = msgspec.json.Encoder().encode
    acknowledged = 0
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal acknowledged
        if error is not None:
            refused.append(error)
            return
        acknowledged += 1
        if acknowledged % PROGRESS_EVERY == 0:
            advance(PROGRESS_EVERY)

    for flight in flights:
        _produce(producer, flight.carrier.encode(), encode(flight), delivered)
    producer.flush(FLUSH_TIMEOUT_S)
    if refused:
        raise KafkaException(refused[0])
    advance(acknowledged % PROGRESS_EVERY)
    return acknowledged


def _produce(
    producer: Producer, key: bytes, value: bytes, delivered: Callable[[KafkaError | None, Message], None]
) -> None:
    while True:
        try:
            producer.produce(settings.TOPIC, value, key, on_delivery=delivered)
        except BufferError:  # The client's queue is full: let it deliver before the next one.
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


class Offsets:
    """What the broker says of the topic's ends and of the group's commits; it joins no group."""

    def __init__(self, bootstrap: str) -> None:
        quiet = {"log_level": 0}  # It would tell of every try to reach the broker that is away.
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": settings.GROUP, **quiet})
        self._partitions = [TopicPartition(settings.TOPIC, each) for each in range(settings.PARTITIONS)]

    def ends(self) -> dict[int, int]:
        """Return the end offset of each partition."""
        return {
            each.partition: self._consumer.get_watermark_offsets(each, REQUEST_TIMEOUT_S)[1]
            for each in self._partitions
        }

    def committed(self) -> dict[int, int] | None:
        """Return the committed offset of each partition, 0 where there is none; None while nobody answers."""
        try:
            answer = self._consumer.committed(self._partitions, REQUEST_TIMEOUT_S)
        except KafkaException:
            return None
        return {each.partition: max(0, each.offset) for each in answer}

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()
