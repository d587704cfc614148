"""A topic that keeps the newest record of each key, and one that keeps its newest bytes."""

import asyncio
from typing import Any

from kohort.client import KohortError, NewTopic, TopicPartition, aio
from kohort.testing.simulation import World
from tests.simulation.whole.limits import Limits
from tests.simulation.whole.reading import read_to_end
from tests.simulation.whole.rules import Rules

COMPACTED, BOUNDED = "newest-of-each-key", "newest-bytes"
BOUNDS = {"retention.bytes": "1000", "internal.segment.bytes": "500"}
KEYS = 5
PAUSE_SECONDS_MAX = 0.6


class KeepBooks(Rules):
    """What was acknowledged, by offset: keys and values of one topic, values of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.by_key: dict[str, tuple[int, str]] = {}
        """The acknowledged record of each key that is the newest, with its offset."""
        self.gone: set[str] = set()
        """Keys whose record was deleted by an acknowledged one without a value. Nothing follows it."""
        self.bounded: dict[int, str] = {}

    def check_end(self, compacted: list[Any], bounded: list[Any]) -> None:
        """Check what there is, in order. Raises: Violation."""
        newest = {record.key.decode(): record for record in compacted}
        for key, (offset, value) in self.by_key.items():
            found = newest.get(key)
            told = None if found is None else (found.offset, found.value.decode())
            is_there = told is not None and (told[0] > offset or told == (offset, value))
            self.hold("the newest record of a key is there", is_there, (key, offset, value, told))
        for key in self.gone:
            has_value = key in newest and newest[key].value is not None
            self.hold("a key that was deleted stays deleted", not has_value, key)
        values = {record.offset: record.value.decode() for record in bounded}
        start = min(values, default=0)
        for offset, value in self.bounded.items():
            if offset >= start or offset == max(self.bounded):
                holds = values.get(offset) == value
                self.hold("what a topic of bounded size has left is whole", holds, (offset, value, start))


def topics(limits: Limits, replicas: int) -> list[NewTopic]:
    """Return the two topics."""
    compacted = {"cleanup.policy": "compact", **limits.topic_settings(COMPACTED)}
    return [
        NewTopic(COMPACTED, 1, replicas, configs=compacted),
        NewTopic(BOUNDED, 1, replicas, configs=BOUNDS),
    ]


async def keep(world: World, books: KeepBooks, bootstrap: str, over: asyncio.Event) -> None:
    """Write to both topics, each time one record, and at times delete a key."""
    random = world.random
    async with aio.Producer(
        bootstrap_servers=bootstrap, acks="all", request_timeout_ms=10_000, delivery_timeout_ms=20_000
    ) as producer:

        async def write(topic: str, key: str | None, value: str | None) -> int:
            sent = await producer.send(
                topic,
                None if value is None else value.encode(),
                key=None if key is None else key.encode(),
                partition=0,
            )
            return int((await sent).offset)

        number = 0
        while not over.is_set():
            await asyncio.sleep(random.uniform(0, PAUSE_SECONDS_MAX))
            number += 1
            value = f"keep-{world.kernel.time_ns}-{number}"
            try:
                if random.random() < 0.4:
                    books.bounded[await write(BOUNDED, None, value)] = value
                elif random.random() < 0.8:
                    key = f"k{random.randrange(KEYS)}"
                    books.by_key[key] = max(
                        (await write(COMPACTED, key, value), value), books.by_key.get(key, (-1, ""))
                    )
                else:
                    await write(COMPACTED, value, value)  # It is its own key, which nobody else has.
                    await write(COMPACTED, value, None)
                    books.gone.add(value)
            except KohortError as error:
                world.note(f"the keeper has {type(error).__name__}: {str(error)[:80]}")


async def check(books: KeepBooks, bootstrap: str) -> None:
    """Read what is there in the end. Raises: Violation."""
    async with aio.Consumer(bootstrap_servers=bootstrap) as consumer:
        compacted = await read_to_end(consumer, TopicPartition(COMPACTED, 0))
        bounded = await read_to_end(consumer, TopicPartition(BOUNDED, 0))
    books.check_end(compacted, bounded)
