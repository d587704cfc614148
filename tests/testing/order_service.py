"""An order service on aiokafka with switches for five mistakes, which docs/guides/simulating.md tells of."""

import asyncio
from collections import Counter
from collections.abc import MutableMapping

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

WORK_SECONDS = 0.05
LARGE_ORDER = 7
LARGE_SECONDS = 30


class Database:
    """What outlives every process of the service."""

    def __init__(self) -> None:
        self.placed: list[int] = []
        """Orders whose customer was told that they are placed."""
        self.shipped: Counter[int] = Counter()
        """How often each order was shipped."""
        self.totals: MutableMapping[int, int] = {}
        """The orders of each customer so far."""


class Shop:
    """One process: it ships orders and counts them by customer."""

    def __init__(self, database: Database, mistake: str = "") -> None:
        self._database = database
        self._mistake = mistake
        self._totals: dict[int, int] = {}

    async def run(self, bootstrap: str) -> None:
        """Handle orders until it is cancelled."""
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=bootstrap,
            group_id="shop",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            max_poll_interval_ms=10_000 if self._mistake == "works too long" else 300_000,
        )
        await consumer.start()
        try:
            async for record in consumer:
                assert record.value is not None
                if self._mistake == "commits before it works":
                    await consumer.commit()
                await self.handle(int(record.value))
                if self._mistake != "commits before it works":
                    await consumer.commit()
        finally:
            await consumer.stop()

    async def handle(self, order: int) -> None:
        """Ship an order, once, and count it."""
        is_large = self._mistake == "works too long" and order == LARGE_ORDER
        await asyncio.sleep(LARGE_SECONDS if is_large else WORK_SECONDS)
        if self._mistake not in ("ships again", "works too long") and self._database.shipped[order]:
            return
        self._database.shipped[order] += 1
        customer = order % 5
        if self._mistake == "keeps its state":
            before = self._totals.get(customer, self._database.totals.get(customer, 0))
        else:
            before = self._database.totals.get(customer, 0)
        self._totals[customer] = self._database.totals[customer] = before + 1


async def place_orders(bootstrap: str, database: Database, count: int, mistake: str = "") -> None:
    """Place `count` orders one by one. Note each one that the broker has acknowledged."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=mistake != "loses errors", request_timeout_ms=5_000
    )
    await producer.start()
    for order in range(count):
        while True:
            try:
                sent = await producer.send("orders", b"%d" % order, key=b"%d" % (order % 5))
                if mistake != "loses errors":
                    await sent
                break
            except KafkaError:  # The customer tries again.
                await asyncio.sleep(1)
        database.placed.append(order)
        await asyncio.sleep(0.3)
    await producer.stop()
