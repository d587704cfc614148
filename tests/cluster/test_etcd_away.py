"""Etcd is away for longer than a lease: what needs no decision goes on, and nothing is decided or lost."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kohort.protocol.messages.metadata import MetadataResponsePartition
from tests.cluster.broker_cluster import PATIENCE_SECONDS, SESSION_MS, BrokerCluster, topic_of
from tests.cluster.etcd_process import EtcdProcess
from tests.cluster.test_replication import QUICK, Writer, create, in_sync, leader, until, values_of
from tests.interop.broker_process import BrokerProcess
from tests.repetitions import only_by_night

LONG_LEASE = "broker.session.timeout.ms=120000"

away = pytest.mark.parametrize("away_seconds", [10, pytest.param(60, marks=only_by_night)])


async def states(broker: BrokerProcess, topic: str) -> list[tuple[object, ...]]:
    """Return what is decided of each partition, as a broker tells it."""

    def told(each: MetadataResponsePartition) -> tuple[object, ...]:
        return each.leader_id, each.leader_epoch, each.replica_nodes, each.isr_nodes

    return [told(each) for each in (await topic_of(broker, topic)).partitions]


def commit(consumer: Consumer, offset: int) -> None:
    consumer.commit(offsets=[TopicPartition("air", 0, offset)], asynchronous=False)


@away
async def test_traffic_continues_without_etcd_while_leases_last(
    own_etcd: EtcdProcess, tmp_path: Path, away_seconds: int
) -> None:
    with BrokerCluster(own_etcd, uuid4().hex, tmp_path, 3, *QUICK, LONG_LEASE) as cluster:
        await create(cluster, "air", min_insync_replicas="2")
        writer = Writer(cluster)
        group = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False}
        consumer, in_thread = Consumer(group), trio.to_thread.run_sync
        await in_thread(commit, consumer, 1)
        writer.send("air", 10)  # A producer's id is a decision, too.
        assert await writer.flush() == 0
        decided = await states(cluster.brokers[1], "air")
        own_etcd.kill()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        (asked,) = admin.create_topics([NewTopic("other", 1, 3)], request_timeout=away_seconds - 2).values()
        deadline, rounds = trio.current_time() + away_seconds, 0
        while trio.current_time() < deadline:
            rounds += 1
            writer.send("air", 10)
            assert await writer.flush(5) == 0, f"nothing is acknowledged in round {rounds}"
            await in_thread(commit, consumer, 10 * rounds)
            await trio.sleep(0.1)
        for broker in cluster.brokers.values():
            assert await states(broker, "air") == decided
            assert (await topic_of(broker, "other")).error_code != 0
        own_etcd.start()
        try:
            await in_thread(asked.result, PATIENCE_SECONDS)
        except KafkaException:
            await create(cluster, "other")
        await until(lambda: _is_there(cluster.brokers[2], "other"))
        writer.send("air", 10)
        assert await writer.flush() == 0
        assert not writer.errors
        assert len(writer.acknowledged) == 10 * rounds + 20 > 200
        assert await values_of(cluster.bootstrap, "air") == writer.acknowledged
        (found,) = await in_thread(consumer.committed, [TopicPartition("air", 0)])
        assert found.offset == 10 * rounds
        consumer.close()


@away
async def test_when_leases_end_without_etcd_nothing_is_acknowledged_or_lost(
    own_etcd: EtcdProcess, tmp_path: Path, away_seconds: int
) -> None:
    with BrokerCluster(own_etcd, uuid4().hex, tmp_path, 3, *QUICK) as cluster:
        await create(cluster, "air", min_insync_replicas="2")
        led_by = await leader(cluster.brokers[1], "air")
        writer = Writer(cluster)
        writer.send("air", 100)
        assert await writer.flush() == 0
        own_etcd.kill()
        cluster.brokers[led_by].kill()  # Nobody can be elected in its place.
        writer.send("air", 100)
        await trio.sleep(SESSION_MS / 1_000)
        await writer.flush(0.1)
        fenced = len(writer.acknowledged)
        writer.send("air", 100)
        assert await writer.flush(away_seconds) == 300 - fenced, "somebody acknowledges without a lease"
        own_etcd.start()
        assert await writer.flush() == 0
        cluster.brokers[led_by].start()
        await in_sync(cluster, "air", 1, 2, 3)
        writer.send("air", 100)
        assert await writer.flush() == 0
        assert not writer.errors
        assert len(writer.acknowledged) == 400
        assert await values_of(cluster.bootstrap, "air") == writer.acknowledged


async def _is_there(broker: BrokerProcess, topic: str) -> bool:
    return (await topic_of(broker, topic)).error_code == 0
