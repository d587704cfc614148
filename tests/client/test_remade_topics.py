"""Topics that are deleted, made anew and enlarged while a producer lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kohort.client import Admin, BrokerError, Consumer, NewTopic, Producer, TopicPartition
from kohort.client.partitioner import partition_for_key
from kohort.protocol.errors import ErrorCode
from tests.client.conftest import QUICK
from tests.interop.broker_process import BrokerProcess

PATIENCE_S = 30.0
KEYS = tuple(b"key-%d" % number for number in range(100))

MakeTopic = Callable[[int], str]


def remake(bootstrap: str, name: str, partitions: int) -> None:
    """Delete the topic, and make it anew."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics(name)
        admin.create_topics(NewTopic(name, partitions=partitions))


def contents(bootstrap: str, name: str, partitions: int) -> list[list[bytes | None]]:
    """Return the values in each partition."""
    found: list[list[bytes | None]] = [[] for _ in range(partitions)]
    places = [TopicPartition(name, number) for number in range(partitions)]
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(*places)
        ends = consumer.end_offsets(*places)
        while any(consumer.position(each) < ends[each] for each in places):
            for record in consumer.poll(timeout_ms=500):
                found[record.partition].append(record.value)
    return found


@pytest.mark.parametrize("before, after", [(4, 1), (1, 4), (3, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("is_idempotent", [True, False])
def test_records_with_keys_are_all_written_to_a_recreated_topic(
    bootstrap: str, topic: MakeTopic, before: int, after: int, is_idempotent: bool
) -> None:
    name = topic(before)
    with Producer(bootstrap_servers=bootstrap, enable_idempotence=is_idempotent) as producer:
        for each in [producer.send(name, b"old", key=key) for key in KEYS]:
            each.result(PATIENCE_S)
        remake(bootstrap, name, after)
        sent = {key: producer.send(name, key, key=key) for key in KEYS}
        for key, each in sent.items():
            # As with Kafka's producer, what the new topic can take goes where the old one had it until
            # something fails.
            written = each.result(PATIENCE_S)
            assert written.partition in {partition_for_key(key, after), partition_for_key(key, before)}
    assert sorted(value or b"" for each in contents(bootstrap, name, after) for value in each) == sorted(KEYS)


def test_records_without_keys_are_all_written_to_a_topic_with_fewer_partitions(
    bootstrap: str, topic: MakeTopic
) -> None:
    name = topic(8)
    with Producer(bootstrap_servers=bootstrap, batch_size=100, batch_max_size=100) as producer:
        for each in [producer.send(name, b"old" * 10) for _ in range(100)]:
            each.result(PATIENCE_S)
        remake(bootstrap, name, 2)
        values = [(b"%d" % number).ljust(40) for number in range(100)]
        for each in [producer.send(name, value) for value in values]:
            each.result(PATIENCE_S)
    assert sorted(value or b"" for each in contents(bootstrap, name, 2) for value in each) == sorted(values)


def test_in_a_transaction_records_go_to_the_current_partitions_of_their_keys(
    bootstrap: str, topic: MakeTopic
) -> None:
    name = topic(4)
    with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        with producer.transaction():
            for key in KEYS:
                producer.send(name, b"old", key=key)
        remake(bootstrap, name, 1)
        with producer.transaction():
            sent = [producer.send(name, key, key=key) for key in KEYS]
        assert {each.result(PATIENCE_S).partition for each in sent} == {0}
    (values,) = contents(bootstrap, name, 1)
    assert sorted(value or b"" for value in values) == sorted(KEYS)


def test_a_removed_partition_is_reported_at_once(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(4)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(name, b"", partition=3).result(PATIENCE_S)
        remake(bootstrap, name, 2)
        late = producer.send(name, b"", partition=3)
        with pytest.raises(BrokerError, match="is gone: topic") as caught:
            late.result(PATIENCE_S)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(BrokerError, match="has partitions 0 to 1, not 3"):
            producer.send(name, b"", partition=3)


def test_an_added_partition_accepts_records_at_once(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(name, b"").result(PATIENCE_S)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({name: 3})
        assert producer.send(name, b"", partition=2).result(PATIENCE_S).partition == 2


@pytest.fixture(scope="module")
def broker_without_creation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a broker listens that makes no topics by itself."""
    process = BrokerProcess(tmp_path_factory.mktemp("strict"), *QUICK, "auto.create.topics.enable=false")
    process.start()
    yield process.bootstrap
    process.stop()


def test_a_topic_that_stays_missing_is_reported_by_name(broker_without_creation: str) -> None:
    with Admin(bootstrap_servers=broker_without_creation) as admin:
        admin.create_topics(NewTopic("gone", partitions=2))
    with Producer(
        bootstrap_servers=broker_without_creation,
        max_block_ms=500,
        linger_ms=0,
        request_timeout_ms=1_000,
        delivery_timeout_ms=3_000,
    ) as producer:
        producer.send("gone", b"").result(PATIENCE_S)
        with Admin(bootstrap_servers=broker_without_creation) as admin:
            admin.delete_topics("gone")
        late = producer.send("gone", b"")
        with pytest.raises(TimeoutError, match="last: UNKNOWN_TOPIC"):
            late.result(PATIENCE_S)
        with pytest.raises(BrokerError, match="topic 'gone' does not exist"):
            producer.send("gone", b"")
