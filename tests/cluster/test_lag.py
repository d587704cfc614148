"""How far groups are behind in partitions that several brokers lead, as the coordinator tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kohort.broker.broker import Broker as RealBroker
from kohort.broker.coordination.test_shard import Client
from kohort.broker.lag import PartitionLag, Verdict
from kohort.protocol.between_brokers import BrokerPageRequest, BrokerPageResponse
from kohort.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.registry import BETWEEN_BROKERS
from kohort.testing import Broker, Cluster

PARTITIONS = 6
RECORDS = 30
PATIENCE_SECONDS = 30


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster({"kohort.lag.interval.ms": 100}) as started:
        yield started


def produce(cluster: Cluster, topic: str, **settings: object) -> None:
    """Write a record to each partition in turn."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for number in range(RECORDS):
        producer.produce(topic, b"x", partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_SECONDS) == 0


def create_unreplicated(cluster: Cluster, topic: str) -> str:
    """Make a topic whose partitions have nobody else to lead them, and return its name once they are led."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_SECONDS)
    cluster.until(lambda: all(cluster.leader(topic, index) for index in range(PARTITIONS)), PATIENCE_SECONDS)
    return topic


def commit(cluster: Cluster, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    offsets = [TopicPartition(topic, index, offset) for index in range(PARTITIONS)]
    for told in consumer.commit(offsets=offsets, asynchronous=False):
        assert told.error is None
    consumer.close()


def lag(cluster: Cluster, group: str) -> dict[int, PartitionLag]:
    """Return what the coordinator tells of each partition."""

    async def look(broker: RealBroker) -> list[PartitionLag]:
        return await broker.lag.of([each for each in broker.group_shards.groups() if each.group_id == group])

    rows = cluster.coordinator(group)._core.call_async(look)
    return {each.partition: each for each in rows}


def test_the_lag_includes_partitions_of_all_leaders(cluster: Cluster) -> None:
    topic = cluster.create_topic("spread", PARTITIONS)
    assert len({cluster.leader(topic, index) for index in range(PARTITIONS)}) > 1
    produce(cluster, topic)
    commit(cluster, "behind", topic, 1)
    found = lag(cluster, "behind")
    each = RECORDS // PARTITIONS
    assert {index: row.lag for index, row in found.items()} == dict.fromkeys(range(PARTITIONS), each - 1)
    assert {row.end_offset for row in found.values()} == {each}
    assert all(row.lag_seconds is not None and row.lag_seconds > 0 for row in found.values())
    assert not any(row.is_stale for row in found.values())


def test_a_group_that_falls_silent_has_stopped_in_the_partitions_of_all_leaders(cluster: Cluster) -> None:
    topic = cluster.create_topic("silent", PARTITIONS)
    produce(cluster, topic)
    commit(cluster, "stopped", topic, 2)
    cluster.until(
        lambda: {row.verdict for row in lag(cluster, "stopped").values()} == {Verdict.STOP}, PATIENCE_SECONDS
    )


def test_unreadable_records_are_no_lag_for_any_leader(cluster: Cluster) -> None:
    topic = cluster.create_topic("transactions", PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_SECONDS)
    for is_committed in (True, False):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce(topic, b"x", partition=index)
        if is_committed:
            producer.commit_transaction(PATIENCE_SECONDS)
        else:
            producer.flush(PATIENCE_SECONDS)
            producer.abort_transaction(PATIENCE_SECONDS)
    commit(cluster, "done", topic, 1)
    found = lag(cluster, "done")
    assert {row.end_offset for row in found.values()} == {4}
    assert {(row.lag, row.lag_seconds, row.verdict) for row in found.values()} == {(0, 0.0, Verdict.OK)}
    commit(cluster, "not-done", topic, 0)
    found = lag(cluster, "not-done")
    assert {row.lag for row in found.values()} == {4}


def test_a_leader_that_does_not_answer_is_reported_and_the_others_count() -> None:
    with Cluster({"kohort.lag.interval.ms": 100}) as cluster:
        topic = create_unreplicated(cluster, "alone")
        produce(cluster, topic)
        commit(cluster, "behind", topic, 1)
        coordinator = cluster.coordinator("behind")
        (gone, *_) = [each for each in cluster.brokers.values() if each is not coordinator]
        its = {index for index in range(PARTITIONS) if cluster.leader(topic, index) is gone}
        assert its
        assert {row.lag for row in lag(cluster, "behind").values()} == {RECORDS // PARTITIONS - 1}
        gone.stop()
        found = lag(cluster, "behind")
        assert {index for index, row in found.items() if row.lag == RECORDS // PARTITIONS - 1} >= (
            set(range(PARTITIONS)) - its
        )
        cluster.until(
            lambda: {index for index, row in lag(cluster, "behind").items() if row.is_stale} == its,
            PATIENCE_SECONDS,
        )


async def test_requests_between_brokers_are_not_offered_to_clients(cluster: Cluster) -> None:
    host, port = next(iter(cluster.brokers.values())).bootstrap.rsplit(":", 1)
    client = Client(await trio.open_tcp_stream(host, int(port)))
    offered = await client.ask(
        ApiVersionsRequest(client_software_name="t", client_software_version="1"), ApiVersionsResponse
    )
    assert not {each.api_key for each in offered.api_keys} & BETWEEN_BROKERS.keys()


async def test_a_single_broker_closes_a_connection_with_requests_of_brokers() -> None:
    with Broker() as broker:
        host, port = broker.bootstrap.rsplit(":", 1)
        client = Client(await trio.open_tcp_stream(host, int(port)))
        with pytest.raises(AssertionError, match="closed the connection"):
            await client.ask(BrokerPageRequest(path="/api/v1/groups"), BrokerPageResponse)
