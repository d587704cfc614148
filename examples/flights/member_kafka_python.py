"""A member of the group that uses kafka-python."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

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
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=journal.member,
        group_id=settings.GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=settings.SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=settings.HEARTBEAT_INTERVAL_MS,
        max_poll_records=settings.BATCH_RECORDS,
    )
    consumer.subscribe([settings.TOPIC], listener=Listener(journal))
    pace, owes_commit = Pace(), False
    while not stopping.is_set():
        batches = consumer.poll(timeout_ms=settings.POLL_TIMEOUT_MS)
        records = ((each.partition, each.offset, each.value) for batch in batches.values() for each in batch)
        counted = journal.count(records)
        time.sleep(pace.work_s(counted))  # The work that these flights are taken to cost.
        owes_commit = owes_commit or counted > 0
        if owes_commit:
            owes_commit = not commit(consumer, journal)
    consumer.close(autocommit=False)


def commit(consumer: KafkaConsumer, journal: Journal) -> bool:
    """Return whether the commit was taken: a broker that is away, or a rebalance, is no reason to stop."""
    try:
        consumer.commit()
    except KafkaError as error:
        journal.note("commit failed", detail=repr(error))
        return False
    return True
