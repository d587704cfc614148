"""Members of a consumer group (KIP-848) and of a share group (KIP-932) that use kohort.client."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from examples.flights import settings
from examples.flights.journal import Journal
from examples.flights.pace import Pace
from kohort.client import Consumer, KohortError, RebalanceListener, ShareConsumer, TopicPartition


class Noting(RebalanceListener):
    """Writes down what the member is given and what is taken from it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._journal.note("assigned", [each.partition for each in partitions])

    def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._journal.note("revoked", [each.partition for each in partitions])

    def on_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._journal.note("lost", [each.partition for each in partitions])


def run(bootstrap: str, journal: Journal, stopping: threading.Event) -> None:
    """Count flights in a consumer group until told to stop."""
    pace = Pace()
    with Consumer(
        settings.TOPIC,
        listener=Noting(journal),
        bootstrap_servers=bootstrap,
        client_id=journal.member,
        group_id=settings.GROUP,
        group_protocol="consumer",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=settings.BATCH_RECORDS,
    ) as consumer:
        while not stopping.is_set():
            records = consumer.poll(timeout_ms=settings.POLL_TIMEOUT_MS)
            if not records:
                continue
            counted = journal.count((each.partition, each.offset, each.value or b"") for each in records)
            time.sleep(pace.work_s(counted))  # The work that these flights are taken to cost.
            try:
                consumer.commit(records)
            except KohortError as error:  # The broker is away, or the partitions have gone meanwhile.
                journal.note("commit failed", detail=repr(error))


def run_shared(bootstrap: str, journal: Journal, stopping: threading.Event) -> None:
    """Count flights in a share group until told to stop: the next poll accepts what was counted."""

    def failed(offsets: Mapping[TopicPartition, Sequence[int]], error: KohortError | None) -> None:
        if error is not None:
            journal.note("commit failed", [each.partition for each in offsets], repr(error))

    pace, assigned = Pace(), False
    with ShareConsumer(
        settings.TOPIC,
        on_acknowledged=failed,
        bootstrap_servers=bootstrap,
        client_id=journal.member,
        group_id=settings.GROUP,
        max_poll_records=settings.BATCH_RECORDS,
    ) as consumer:
        while not stopping.is_set():
            records = consumer.poll(timeout_ms=settings.POLL_TIMEOUT_MS)
            if not assigned and consumer.assignment():
                assigned = True
                journal.note("assigned", [each.partition for each in consumer.assignment()])
            counted = journal.count((each.partition, each.offset, each.value or b"") for each in records)
            time.sleep(pace.work_s(counted))  # The work that these flights are taken to cost.
