"""A topic that is deleted and made anew while it is read: all of its new records come, each once."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from kohort.client import (
    Admin,
    CommitFailedError,
    Consumer,
    ConsumerRecords,
    KohortError,
    NewTopic,
    Producer,
    TopicPartition,
)
from kohort.client.config import ConsumerOptions
from tests.client.steps import MakeTopic


def write(bootstrap: str, topic: str, prefix: str, count: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(topic, value=f"{prefix}-{number}".encode(), partition=number % 3)


def make_anew(bootstrap: str, name: str, count: int) -> None:
    """Delete the topic, and make it again as soon as the broker lets that happen; write to it."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics(name)
        deadline = time.monotonic() + 20
        while True:
            try:
                admin.create_topics(NewTopic(name, partitions=3))
                break
            except KohortError:
                assert time.monotonic() < deadline
    write(bootstrap, name, "new", count)


def read_until(consumer: Consumer, wanted: int, within_s: float = 30) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    deadline = time.monotonic() + within_s
    while sum(found.values()) < wanted and time.monotonic() < deadline:
        found.update(each.value or b"" for each in consumer.poll(timeout_ms=100))
    found.update(each.value or b"" for each in consumer.poll(timeout_ms=500))
    return found


@pytest.mark.parametrize("how", ["classic", "consumer", "by hand"])
@pytest.mark.parametrize("auto_commit", [True, False])
def test_all_records_of_a_recreated_topic_are_read_once(
    bootstrap: str, topic: MakeTopic, group: str, how: str, auto_commit: bool
) -> None:
    name = topic(3)
    write(bootstrap, name, "old", 600)
    options: ConsumerOptions = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": auto_commit,
        "auto_commit_interval_ms": 20,
    }
    if how != "by hand":
        options["group_protocol"] = how
    with Consumer(**options) as consumer:
        if how == "by hand":
            consumer.assign(*(TopicPartition(name, each) for each in range(3)))
        else:
            consumer.subscribe(name)
        assert sum(read_until(consumer, 600).values()) == 600
        make_anew(bootstrap, name, 900)
        found = read_until(consumer, 900)
        assert found == {f"new-{number}".encode(): 1 for number in range(900)}


def test_records_of_the_old_topic_are_not_committed_for_the_new_one(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(3)
    write(bootstrap, name, "old", 300)
    with Consumer(
        name,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_protocol="consumer",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        old: ConsumerRecords = consumer.poll(timeout_ms=20_000)
        while not old:
            old = consumer.poll(timeout_ms=20_000)
        make_anew(bootstrap, name, 30)
        assert set(read_until(consumer, 30)) == {f"new-{number}".encode() for number in range(30)}
        with pytest.raises(CommitFailedError):
            consumer.commit(old)


def test_without_a_reset_policy_a_recreated_topic_raises(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(3)
    write(bootstrap, name, "old", 30)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign(TopicPartition(name, 0))
        consumer.seek(TopicPartition(name, 0), 0)
        assert sum(read_until(consumer, 10, 5).values()) == 10
        make_anew(bootstrap, name, 30)
        with pytest.raises(KohortError, match=r"auto_offset_reset is 'none'"):
            read_until(consumer, 10)
