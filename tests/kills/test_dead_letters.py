"""Dead letters under kill -9 of the broker: each record that a group gives up has one at least (KIP-1191)."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from pathlib import Path

import pytest

from kohort.client import (
    AcknowledgeType,
    Admin,
    Consumer,
    KohortError,
    NewTopic,
    ResourceType,
    ShareConsumer,
)
from tests.interop.broker_process import BrokerProcess
from tests.interop.threads import Members
from tests.interop.waiting import wait_until
from tests.kills.test_own_members import COUNT, SETTINGS, produce_while_killed

PARTITIONS, LETTER_PARTITIONS = 4, 3
LETTERS = "dlq.jobs"
LIMIT = 5
WITHIN_S = 90.0


def kind_of(number: int) -> AcknowledgeType:
    """Return what members say of a record: a third is poison, a third is given back as often as it comes."""
    return (AcknowledgeType.REJECT, AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT)[number % 3]


@pytest.mark.requirement("R32")
def test_each_archived_record_has_a_dead_letter_despite_broker_kills(tmp_path: Path) -> None:
    topic, group = f"topic-{uuid.uuid4().hex[:8]}", "workers"
    broker = BrokerProcess(tmp_path, *SETTINGS)
    broker.start()
    letters: Counter[int] = Counter()
    given_up = {number for number in range(COUNT) if kind_of(number) is not AcknowledgeType.ACCEPT}

    def work(stopping: threading.Event) -> None:
        with ShareConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            share_acknowledgement_mode="explicit",
            max_poll_records=20,
        ) as consumer:
            while not stopping.is_set():
                for record in consumer.poll(timeout_ms=100):
                    consumer.acknowledge(record, kind_of(int(record.value or b"0")))

    def read_letters(stopping: threading.Event) -> None:
        with Consumer(
            LETTERS, bootstrap_servers=broker.bootstrap, group_id="readers", auto_offset_reset="earliest"
        ) as consumer:
            while not stopping.is_set():
                letters.update(int(each.value or b"-1") for each in consumer.poll(timeout_ms=100))

    def lag() -> int:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            try:
                found = admin.list_share_group_offsets(group)
            except KohortError:
                return COUNT  # Nobody can say just now: what was killed is loading.
        known = [
            each.lag for each in found.values() if each.lag is not None
        ]  # Unknown before the first fetch.
        return sum(known) if len(known) == PARTITIONS else COUNT

    try:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            enabled = {"errors.deadletterqueue.group.enable": "true"}
            admin.create_topics(NewTopic(topic, partitions=PARTITIONS))
            admin.create_topics(NewTopic(LETTERS, partitions=LETTER_PARTITIONS, configs=enabled))
            values = {
                "share.auto.offset.reset": "earliest",
                "share.delivery.count.limit": str(LIMIT),
                "errors.deadletterqueue.topic.name": LETTERS,
                "errors.deadletterqueue.copy.record.enable": "true",
            }
            admin.alter_configs(ResourceType.GROUP, group, values=values)
        members, readers = Members(2, work), Members(1, read_letters)
        produce_while_killed(broker, topic)
        wait_until(lambda: members.errors or not lag(), "the group is done with all", WITHIN_S)
        members.stop()
        wait_until(lambda: readers.errors or given_up <= letters.keys(), "each has its letter", WITHIN_S)
        readers.stop()
    finally:
        broker.stop()
    assert letters.keys() <= given_up, "who is accepted gets none"
