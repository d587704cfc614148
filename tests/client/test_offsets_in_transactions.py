"""Offsets that a transaction commits: nobody who takes the partition over begins before it has ended."""

from __future__ import annotations

import logging
import threading
import time
from itertools import product

import pytest

from kohort.client import Consumer, Producer, TopicPartition
from tests.client.steps import MakeTopic, produce, read

PROTOCOLS = ("classic", "consumer")


@pytest.mark.parametrize("settings", [*product(PROTOCOLS, ["read_uncommitted", "read_committed"])])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_member_waits_for_the_end_of_a_transaction_with_its_offsets(
    bootstrap: str, topic: MakeTopic, group: str, settings: tuple[str, str], is_commit: bool
) -> None:
    protocol, isolation_level = settings
    name = topic(1)
    produce(bootstrap, name, 10)
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{group}-id") as producer,
        Consumer(
            name,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_protocol=protocol,
            isolation_level=isolation_level,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        producer.begin_transaction()
        producer.send_offsets({TopicPartition(name, 0): 4}, group)
        assert consumer.poll(timeout_ms=1_000) == [], "it begins where the group was before the transaction"
        if is_commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        first = 4 if is_commit else 0
        assert [each.offset for each in read(consumer, 10 - first)] == list(range(first, 10))


def test_committed_waits_for_the_end_of_the_transaction(bootstrap: str, topic: MakeTopic, group: str) -> None:
    where = TopicPartition(topic(1), 0)
    with (
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{group}-id") as producer,
        Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer,
    ):
        producer.begin_transaction()
        producer.send_offsets({where: 4}, group)
        timer = threading.Timer(0.3, producer.commit_transaction)
        timer.start()
        began_s = time.monotonic()
        found = consumer.committed(where)[where]
        assert found is not None
        assert found.offset == 4
        assert time.monotonic() - began_s >= 0.3
        timer.join()


@pytest.mark.parametrize(
    "case",
    [
        ("read_uncommitted", False, ["isolation_level='read_uncommitted'"]),
        ("read_committed", True, ["enable_auto_commit=True"]),
        ("read_uncommitted", True, ["isolation_level='read_uncommitted'", "enable_auto_commit=True"]),
        ("read_committed", False, []),
    ],
)
def test_a_consumer_that_does_not_fit_a_transaction_is_warned_about(
    bootstrap: str,
    topic: MakeTopic,
    group: str,
    caplog: pytest.LogCaptureFixture,
    case: tuple[str, bool, list[str]],
) -> None:
    isolation_level, enable_auto_commit, words = case
    name = topic(1)
    with (
        Consumer(
            name,
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level=isolation_level,
            enable_auto_commit=enable_auto_commit,
        ) as consumer,
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{group}-id") as producer,
        caplog.at_level(logging.WARNING),
    ):
        while not consumer.assignment():
            consumer.poll(timeout_ms=50)
        for offset in range(3):
            with producer.transaction():
                producer.send_offsets({TopicPartition(name, 0): offset}, consumer.group_metadata())
    found = [each.getMessage() for each in caplog.records if "a transaction commits" in each.getMessage()]
    assert len(found) == bool(words), "once, not with each transaction"
    assert all(each in found[0] for each in words)
