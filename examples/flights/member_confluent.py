"""A member of the group that uses confluent-kafka."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from examples.flights import settings
from examples.flights.journal import Journal
from examples.flights.pace import Pace


def run(bootstrap: str, journal: Journal, stopping: threading.Event) -> None:
    """Count flights in a classic group until told to stop."""
    classic: dict[str, str | int] = {
        "partition.assignment.strategy": settings.ASSIGNOR,
        "session.timeout.ms": settings.SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": settings.HEARTBEAT_INTERVAL_MS,
    }
    count(bootstrap, journal, stopping, classic)


def run_consumer(bootstrap: str, journal: Journal, stopping: threading.Event) -> None:
    """Count flights in a consumer group (KIP-848) until told to stop."""
    count(bootstrap, journal, stopping, {"group.protocol": "consumer"})


def count(
    bootstrap: str, journal: Journal, stopping: threading.Event, protocol: dict[str, str | int]
) -> None:
    """Count flights until told to stop."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": journal.member,
            "group.id": settings.GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,  # librdkafka writes a line for each try to reach the broker while it is away.
            **protocol,
        }
    )

    def assigned(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
        journal.note("assigned", [each.partition for each in partitions])

    def revoked(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
        journal.note("revoked", [each.partition for each in partitions])

    consumer.subscribe([settings.TOPIC], on_assign=assigned, on_revoke=revoked)
    pace, owes_commit = Pace(), False
    while not stopping.is_set():
        messages = consumer.consume(settings.BATCH_RECORDS, settings.POLL_TIMEOUT_MS / 1000)
        records = [
            (each.partition() or 0, each.offset() or 0, each.value() or b"")
            for each in messages
            if each.error() is None
        ]
        counted = journal.count(records)
        time.sleep(pace.work_s(counted))  # The work that these flights are taken to cost.
        owes_commit = owes_commit or counted > 0
        if owes_commit:
            owes_commit = not commit(consumer, journal)
    consumer.close()


def commit(consumer: Consumer, journal: Journal) -> bool:
    """Return whether the commit was taken: a broker that is away, or a rebalance, is no reason to stop."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        journal.note("commit failed", detail=repr(error))
        return False
    return True
