"""A topic whose first records an administrator deletes: they stay deleted, and the others stay there."""

import asyncio

from kohort.client import KohortError, TopicPartition, aio
from kohort.testing.simulation import World
from tests.simulation.whole.reading import read_to_end
from tests.simulation.whole.rules import Rules

TOPIC = "trimmed"
PARTITION = TopicPartition(TOPIC, 0)


class TrimBooks(Rules):
    """What was written and deleted, by what the brokers have acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int, str] = {}
        """The acknowledged values, by offset."""
        self.asked = 0
        """The highest offset before which records were to be deleted, whatever came of it."""
        self.deleted = 0
        """The highest offset before which records are deleted, by a broker's answer."""

    def check_end(self, start: int, found: dict[int, str]) -> None:
        """Check the first offset and the records by offset. Raises: Violation."""
        self.hold("deleted records stay deleted", start >= self.deleted, (start, self.deleted))
        self.hold("no more is deleted than was asked", start <= self.asked, (start, self.asked))
        for offset, value in self.written.items():
            if offset >= self.asked:
                self.hold("other records stay", found.get(offset) == value, (offset, value))


async def trim(world: World, books: TrimBooks, bootstrap: str, over: asyncio.Event) -> None:
    """Write values, and delete the first ones of them, again and again."""
    random, number = world.random, 0
    async with (
        aio.Producer(
            bootstrap_servers=bootstrap, acks="all", request_timeout_ms=10_000, delivery_timeout_ms=20_000
        ) as producer,
        aio.Admin(bootstrap_servers=bootstrap) as admin,
    ):
        while not over.is_set():
            await asyncio.sleep(random.uniform(0, 1))
            number += 1
            value = f"trim-{world.kernel.time_ns}-{number}"
            try:
                written = await (await producer.send(TOPIC, value.encode(), partition=0))
                books.written[written.offset] = value
                if random.random() < 0.2:
                    before = random.choice(sorted(books.written)[-10:])
                    books.asked = max(books.asked, before)
                    await admin.delete_records({PARTITION: before})
                    books.deleted = max(books.deleted, before)
            except KohortError as error:
                world.note(f"the trimmer has {type(error).__name__}: {str(error)[:80]}")


async def check(books: TrimBooks, bootstrap: str) -> None:
    """Read what is there in the end. Raises: Violation."""
    async with aio.Consumer(bootstrap_servers=bootstrap) as consumer:
        start = (await consumer.beginning_offsets(PARTITION))[PARTITION]
        records = await read_to_end(consumer, PARTITION)
    books.check_end(start, {record.offset: record.value.decode() for record in records})
