"""Topics for the tests with Spark, filled by a client that is not ours."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row

from kohort.client import Admin, NewTopic

Headers = Sequence[tuple[str, bytes | None]]
DEADLINE_S = 30


class Sent(NamedTuple):
    """A record as it is sent."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int = 1_700_000_000_000
    headers: Headers = ()


@dataclass(frozen=True)
class Topics:
    """Makes topics on a broker, and fills them."""

    bootstrap: str

    def make(self, partitions: int = 1, **configs: str) -> str:
        """Return the name of a new topic; settings in Kafka's names with underscores."""
        name = f"topic-{uuid.uuid4().hex[:10]}"
        self.make_named(name, partitions, **configs)
        return name

    def make_named(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Make a topic of this name."""
        configs = {"retention_ms": "-1"} | configs  # The records here bear times of long ago.
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics(NewTopic(name, partitions=partitions, configs=settings))

    def fill(self, topic: str, records: Iterable[Sent], *, compression: str = "none") -> None:
        """Return when the broker has them all."""
        failed: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": compression})
        for each in records:
            producer.produce(
                topic,
                each.value,
                each.key,
                each.partition,
                on_delivery=lambda error, _message: failed.append(error) if error else None,
                timestamp=each.timestamp_ms,
                headers=list(each.headers),
            )
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0
        assert not failed


def numbered(count: int, *, partitions: int = 1, first: int = 0) -> list[Sent]:
    """Return records with their numbers as values, one partition after the other in turn."""
    return [Sent(b"%d" % number, partition=number % partitions) for number in range(first, first + count)]


def values(frame: DataFrame) -> list[int]:
    """Return the numbers that a frame's values are, sorted: a row too many shows as well as one too few."""
    return sorted(int(bytes(row.value)) for row in frame.select("value").collect())


def places(rows: Iterable[Row]) -> list[tuple[int, int]]:
    """Return the partitions and offsets of rows, sorted."""
    return sorted((row.partition, row.offset) for row in rows)
