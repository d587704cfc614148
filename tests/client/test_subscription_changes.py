"""What a consumer reads after another subscription: nothing of the topics that it has left."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from kohort.client import Admin, Consumer, ResourceType, ShareConsumer, TopicPartition
from kohort.client.config import ConsumerOptions
from tests.client.steps import MakeTopic, poll_until, produce, read
from tests.interop.waiting import wait_until

PROTOCOLS = ("classic", "consumer")


@pytest.fixture(params=PROTOCOLS)
def options(request: pytest.FixtureRequest, bootstrap: str, group: str) -> ConsumerOptions:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_protocol": request.param,
        "auto_offset_reset": "earliest",
    }


def topics_polled(consumer: Consumer, wanted: str, within_s: float = 20) -> Counter[str]:
    """Return how many records of each topic come, until a hundred of the wanted one have."""
    found: Counter[str] = Counter()
    deadline = time.monotonic() + within_s
    while found[wanted] < 100 and time.monotonic() < deadline:
        found.update(each.topic for each in consumer.poll(timeout_ms=100))
    return found


@pytest.mark.parametrize("first_by", ["name", "pattern"])
@pytest.mark.parametrize("then_by", ["name", "pattern"])
def test_records_of_an_unsubscribed_topic_are_not_returned(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions, first_by: str, then_by: str
) -> None:
    left, wanted = topic(1), topic(1)
    produce(bootstrap, left, 1_000)
    produce(bootstrap, wanted, 100)
    with Consumer(**options) as consumer:
        for name, by in ((left, first_by), (wanted, then_by)):
            if by == "name":
                consumer.subscribe(name)
            else:
                consumer.subscribe(pattern=f"{name[:-1]}[{name[-1]}]")
            if name == left:
                assert len(consumer.poll(max_records=5)) == 5
        assert topics_polled(consumer, wanted) == {wanted: 100}
        assert consumer.assignment() == (TopicPartition(wanted, 0),)
        where = TopicPartition(left, 0)
        with Admin(bootstrap_servers=bootstrap) as admin:
            assert admin.list_group_offsets(str(options["group_id"]))[where].offset == 5


def test_resubscribing_at_once_continues_at_the_position(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    left, other = topic(1), topic(1)
    produce(bootstrap, left, 100)
    with Consumer(left, **options) as consumer:
        assert len(consumer.poll(max_records=5)) == 5
        consumer.subscribe(other)
        consumer.subscribe(left)
        assert sorted(each.offset for each in read(consumer, 95)) == list(range(5, 100))


def test_a_topic_that_stays_subscribed_continues(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    kept, left, new = topic(1), topic(1), topic(1)
    for each in (kept, left, new):
        produce(bootstrap, each, 100)
    with Consumer(kept, left, **options) as consumer:
        poll_until(consumer, lambda: len(consumer.assignment()) == 2, "both")
        consumer.seek_to_beginning()
        consumer.subscribe(kept, new)
        found = Counter(each.topic for each in read(consumer, 200))
        assert found == {kept: 100, new: 100}


def poll_for(consumer: Consumer, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        consumer.poll(timeout_ms=50)


def test_a_pattern_subscription_does_not_create_a_deleted_topic_again(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    kept, deleted = topic(1), topic(1)
    options = {**options, "metadata_max_age_ms": 100}
    with Admin(bootstrap_servers=bootstrap) as admin, Consumer(**options) as consumer:
        consumer.subscribe(pattern=f"{kept}|{deleted}")
        poll_until(consumer, lambda: len(consumer.assignment()) == 2, "both")
        admin.delete_topics(deleted)
        poll_until(consumer, lambda: len(consumer.assignment()) == 1, "one alone")
        poll_for(consumer, 1)
        assert deleted not in admin.list_topics()


def test_a_leader_does_not_make_the_topics_of_other_members(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    mine, others = topic(1), topic(1)
    options = {**options, "metadata_max_age_ms": 100}
    with Admin(bootstrap_servers=bootstrap) as admin, Consumer(mine, **options) as leader:
        poll_until(leader, leader.assignment, "mine")
        options = {**options, "allow_auto_create_topics": False}
        with Consumer(others, **options) as other:
            deadline = time.monotonic() + 20
            while not other.assignment() and time.monotonic() < deadline:
                leader.poll(timeout_ms=20)
                other.poll(timeout_ms=20)
            admin.delete_topics(others)
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline:
                leader.poll(timeout_ms=20)
                other.poll(timeout_ms=20)
            assert others not in admin.list_topics()


def test_an_unsubscribed_deleted_topic_is_not_created_again(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    left, new = topic(1), topic(1)
    options = {**options, "metadata_max_age_ms": 100}
    with Admin(bootstrap_servers=bootstrap) as admin, Consumer(left, **options) as consumer:
        poll_until(consumer, consumer.assignment, "the topic")
        consumer.subscribe(new)
        admin.delete_topics(left)
        time.sleep(0.3)  # It still owns it, and asks for its partitions: polls alone hand over.
        poll_for(consumer, 1)
        assert left not in admin.list_topics()


def test_a_missing_topic_is_created_by_a_subscription_by_name(
    bootstrap: str, topic: MakeTopic, options: ConsumerOptions
) -> None:
    missing = f"{topic(1)}-missing"
    options = {**options, "metadata_max_age_ms": 100}
    with Consumer(missing, **options) as consumer:
        poll_until(consumer, consumer.assignment, "the new topic")
        assert {each.topic for each in consumer.assignment()} == {missing}


def test_a_share_consumer_returns_no_records_of_an_unsubscribed_topic(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    left, wanted = topic(1), topic(1)
    # A member hears of its assignment before the group has begun to read: by then the records may be written.
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs(ResourceType.GROUP, group, values={"share.auto.offset.reset": "earliest"})
    with ShareConsumer(left, bootstrap_servers=bootstrap, group_id=group) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=50) or consumer.assignment(), "an assignment")
        produce(bootstrap, left, 1_000)
        assert len(consumer.poll(timeout_ms=20_000, max_records=5)) == 5
        consumer.subscribe(wanted)
        found: Counter[str] = Counter()

        def polled() -> Counter[str]:
            found.update(each.topic for each in consumer.poll(timeout_ms=50))
            return found

        wait_until(lambda: polled() or TopicPartition(wanted, 0) in consumer.assignment(), "the other topic")
        produce(bootstrap, wanted, 100)
        wait_until(lambda: polled()[wanted] >= 100, "its records")
        assert found == {wanted: 100}
        with ShareConsumer(left, bootstrap_servers=bootstrap, group_id=group) as other:
            offsets: list[int] = []

            def read_on() -> bool:
                offsets.extend(each.offset for each in other.poll(timeout_ms=500))
                return len(offsets) >= 995

            wait_until(read_on, "what was given back")
            assert offsets == list(range(5, 1_000)), "what it had was given back at once"
