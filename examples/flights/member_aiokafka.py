"""A member of the group that uses aiokafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from examples.flights import settings
from examples.flights.journal import Journal
from examples.flights.pace import Pace


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # The library is untyped.
    """Notes every change of the assignment."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """A rebalance begins; everything counted is committed already."""
        self._journal.note("revoked", [each.partition for each in revoked])

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """A rebalance is over."""
        self._journal.note("assigned", [each.partition for each in assigned])


def run(bootstrap: str, journal: Journal, stopping: threading.Event) -> None:
    """Count flights until told to stop."""
    asyncio.run(count(bootstrap, journal, stopping))


async def count(bootstrap: str, journal: Journal, stopping: threading.Event) -> None:
    """Count flights until told to stop, on the running loop."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=journal.member,
        group_id=settings.GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=settings.SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=settings.HEARTBEAT_INTERVAL_MS,
    )
    consumer.subscribe([settings.TOPIC], listener=Listener(journal))
    await consumer.start()
    try:
        pace, owes_commit = Pace(), False
        while not stopping.is_set():
            batches = await consumer.getmany(
                timeout_ms=settings.POLL_TIMEOUT_MS, max_records=settings.BATCH_RECORDS
            )
            records = (
                (each.partition, each.offset, each.value or b"")
                for batch in batches.values()
                for each in batch
            )
            counted = journal.count(records)
            await asyncio.sleep(pace.work_s(counted))
            owes_commit = owes_commit or counted > 0
            if owes_commit:
                owes_commit = not await commit(consumer, journal)
    finally:
        await consumer.stop()


async def commit(consumer: AIOKafkaConsumer, journal: Journal) -> bool:
    """Return whether the commit was taken: a broker that is away, or a rebalance, is no reason to stop."""
    try:
        await consumer.commit()
    except KafkaError as error:
        journal.note("commit failed", detail=repr(error))
        return False
    return True
