"""Who administers a cluster of three brokers during a run, and who looks whether it shows."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

from kohort.client import (
    KohortError,
    NewTopic,
    OffsetAndMetadata,
    ResourceType,
    TopicPartition,
    aio,
)
from kohort.testing.simulation import World
from tests.simulation.whole.books import Books
from tests.simulation.whole.reading import read_values

FLEETING = "made-again"
BROKERS = 3
GROUP = "passers-by"
RECORDS_MAX = 6
PAUSE_SECONDS = 4.0
KNOWN_SECONDS_MAX = 10


class ClusterClients:
    """The code of the processes. Each begins again when it is started again."""

    def __init__(self, world: World, books: Books, bootstrap: str, over: asyncio.Event) -> None:
        self._world = world
        self._books = books
        self._bootstrap = bootstrap
        self._over = over
        self._values = 0
        self._groups = 0
        self._written_before: set[str] = set()  # To earlier topics of the name that comes and goes.

    @property
    def _random(self) -> Random:
        return self._world.random

    def _value(self) -> str:
        self._values += 1
        return f"v{self._values}"

    def _producer(self) -> Any:
        return aio.Producer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            request_timeout_ms=10_000,
            delivery_timeout_ms=20_000,
        )

    def _admin(self) -> Any:
        return aio.Admin(bootstrap_servers=self._bootstrap)

    async def move(self, topic: str, replicas: int) -> None:
        """Move the first partition to other brokers and back, and take moves back."""
        async with self._admin() as admin:
            while not self._over.is_set():
                await asyncio.sleep(self._random.uniform(0, 2 * PAUSE_SECONDS))
                target = self._random.sample(range(1, BROKERS + 1), replicas)
                is_taken_back = self._random.random() < 0.2
                moved = {TopicPartition(topic, 0): None if is_taken_back else target}
                with suppress(KohortError):
                    await admin.alter_partition_reassignments(moved)

    # -- a topic that is deleted and made again -------------------------------------------------------------

    async def make_again(self) -> None:
        """Delete a topic and make it again. Nothing of the former one may be left."""
        async with self._admin() as admin:
            while not self._over.is_set():
                with suppress(KohortError):
                    await self._live(admin)
                await asyncio.sleep(self._random.uniform(0, PAUSE_SECONDS))

    async def _live(self, admin: Any) -> None:
        """Have the topic once, from its creation to its deletion. Raises: KohortError."""
        with suppress(KohortError):  # It may not be there.
            await admin.delete_topics(FLEETING)
        await admin.create_topics(NewTopic(FLEETING, 1, BROKERS))
        if not await self._is_known():
            return
        partition = TopicPartition(FLEETING, 0)
        group = f"{GROUP}-{self._groups}"
        committed = (await admin.list_group_offsets(group, [partition])).get(partition)
        self._books.cluster.made_again(
            committed, await read_values(self._bootstrap, FLEETING), self._written_before
        )
        acknowledged = set[str]()
        async with self._producer() as producer:
            for _ in range(self._random.randrange(1, RECORDS_MAX)):
                value = self._value()
                self._written_before.add(value)
                await (await producer.send(FLEETING, value.encode(), partition=0))
                acknowledged.add(value)
        found = await read_values(self._bootstrap, FLEETING)
        self._books.cluster.read_again(acknowledged, found)
        self._groups += 1  # A commit that is not answered may come late, and count for the next topic.
        await admin.alter_group_offsets(group, {partition: OffsetAndMetadata(len(found))})
        self._groups -= 1
        await asyncio.sleep(self._random.uniform(0, PAUSE_SECONDS))

    async def _is_known(self) -> bool:
        """Return whether all brokers hear of the new topic. One that does not answers as before."""
        for _ in range(KNOWN_SECONDS_MAX):
            await asyncio.sleep(1)
            serving = [each.broker for each in self._world.brokers if each.broker is not None]
            found = [each.metadata.snapshot().topics.get(FLEETING) for each in serving]
            if len(found) == BROKERS and all(
                each and found[0] and each.topic_id == found[0].topic_id for each in found
            ):
                return True
        return False

    # -- everything else ------------------------------------------------------------------------------------

    async def change_settings(self) -> None:
        """Change settings of all brokers."""
        async with self._admin() as admin:
            while not self._over.is_set():
                await asyncio.sleep(self._random.uniform(0, 2 * PAUSE_SECONDS))
                changed = self._random.choice((
                    {"log.index.interval.bytes": str(self._random.choice((0, 4_096)))},
                    {"log.roll.ms": str(self._random.choice((3_000, 600_000)))},
                    {"message.max.bytes": str(self._random.choice((100_000, 1 << 20)))},
                ))  # fmt: skip
                with suppress(KohortError):
                    await admin.alter_configs(ResourceType.BROKER, "", values=changed)

    async def look_by_time(self, topic: str, partitions: int) -> None:
        """Ask for the first record of each partition by a time before all of them."""
        async with self._admin() as admin:
            while not self._over.is_set():
                await asyncio.sleep(self._random.uniform(0, 2))
                partition = self._random.randrange(partitions)
                was_written = partition in self._books.written
                asked = TopicPartition(topic, partition)
                with suppress(KohortError):
                    found = (await admin.list_offsets({asked: 1}))[asked]
                    self._books.cluster.found_by_time(partition, found.offset, was_written)
