"""A service that copies records exactly once, by transactions: on aiokafka, and on kohort's client."""

import asyncio
from collections import Counter
from random import Random
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition

from kohort.client import TopicPartition, aio

SOURCE, TARGET, GROUP = "source", "target", "copiers"
MEMBER: dict[str, Any] = {
    "group_id": GROUP,
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "isolation_level": "read_committed",
    "session_timeout_ms": 10_000,
}
"""The settings of both members: the two clients have the same names."""
WORK_SECONDS_MAX = 1.0


async def copy_with_aiokafka(bootstrap: str, name: str, random: Random) -> None:
    """Copy records until an error or the end comes. Who is started again begins at the committed offsets."""
    consumer = AIOKafkaConsumer(SOURCE, bootstrap_servers=bootstrap, **MEMBER)
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"copier-{name}")
    await producer.start()
    await consumer.start()
    try:
        while True:
            found = await consumer.getmany(timeout_ms=500, max_records=10)
            if not found:
                continue
            async with producer.transaction():
                for records in found.values():
                    for record in records:
                        await producer.send(TARGET, record.value)
                await asyncio.sleep(random.uniform(0, WORK_SECONDS_MAX))
                offsets = {partition: records[-1].offset + 1 for partition, records in found.items()}
                await producer.send_offsets_to_transaction(offsets, GROUP)
    finally:
        await consumer.stop()
        await producer.stop()


async def copy_with_kohort(bootstrap: str, name: str, random: Random) -> None:
    """Do the same with kohort's client, which sends the member and its generation along with the offsets."""
    async with (
        aio.Producer(bootstrap_servers=bootstrap, transactional_id=f"copier-{name}") as producer,
        aio.Consumer(SOURCE, bootstrap_servers=bootstrap, **MEMBER) as consumer,
    ):
        await producer.init_transactions()
        while True:
            records = await consumer.poll(timeout_ms=500, max_records=10)
            if not records:
                continue
            await producer.begin_transaction()
            for record in records:
                await producer.send(TARGET, record.value)
            await asyncio.sleep(random.uniform(0, WORK_SECONDS_MAX))
            offsets = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in records}
            await producer.send_offsets(offsets, consumer.group_metadata())
            await producer.commit_transaction()


async def place(bootstrap: str, count: int) -> None:
    """Write the numbers from 0 to `count`, each once."""
    async with aio.Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            await (await producer.send(SOURCE, str(number).encode(), key=str(number).encode()))
            await asyncio.sleep(0.3)


class Copies:
    """What a reader of committed records finds in the target."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    async def read(self, bootstrap: str) -> None:
        """Count each value."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign([AiokafkaPartition(TARGET, 0)])
        await consumer.seek_to_beginning()
        async for record in consumer:
            assert record.value is not None
            self.seen[int(record.value)] += 1
