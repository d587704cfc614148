"""Brokers with an authorizer: entries hold at all of them, and they may ask each other what they must."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from kohort.client import Acl, AclOperation, AclResourceType, Admin, NewTopic
from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.waiting import wait_until

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
    "replica.fetch.backoff.ms=100",
    "transaction.state.log.num.partitions=6",
)
ME = "User:ANONYMOUS"
O = AclOperation  # noqa: E741


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *SETTINGS) as cluster:
        yield cluster


def in_sync(admin: Admin, topic: str) -> int:
    return min(len(each.isr) for each in admin.describe_topics(topic)[topic].partitions)


def produced(cluster: BrokerCluster, topic: str, **more: str) -> list[KafkaError | None]:
    """Return what became of a record for each partition, in a transaction where `more` has its id."""
    found: list[KafkaError | None] = []
    options = {name.replace("_", "."): value for name, value in more.items()}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 20_000, **options})
    if more:
        producer.init_transactions(PATIENCE_SECONDS)
        producer.begin_transaction()
    for partition in range(3):
        producer.produce(topic, b"x", partition=partition, on_delivery=lambda error, _: found.append(error))
    assert producer.flush(PATIENCE_SECONDS) == 0
    if more:
        producer.commit_transaction(PATIENCE_SECONDS)
    return found


def read_errors(cluster: BrokerCluster, topic: str) -> list[object]:
    """Return what becomes of reading each partition, which different brokers lead."""
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    found: list[object] = []
    for partition in range(3):
        consumer = Consumer(options)
        consumer.assign([TopicPartition(topic, partition, 0)])
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        error = message.error()
        found.append(message.value() if error is None else error.code())
        consumer.close()
    return found


def test_access_control_applies_everywhere_and_brokers_can_replicate(cluster: BrokerCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics(NewTopic("t", 3, 3, configs={"min.insync.replicas": "3"}))
        assert produced(cluster, "t") == [None] * 3
        kafka = AclResourceType.CLUSTER, "kafka-cluster"
        for each in (
            Acl(ME, O.ALTER, *kafka),
            Acl(ME, O.CLUSTER_ACTION, *kafka, host="127.0.0.1"),
            Acl(ME, O.WRITE, AclResourceType.TRANSACTIONAL_ID, "x"),
            Acl(ME, O.WRITE, AclResourceType.TOPIC, "t"),
            Acl(ME, O.READ, AclResourceType.GROUP, "g"),
        ):
            admin.create_acls(each)
        # Followers have no right to read the topic but that of brokers, and every one of them has to copy.
        assert produced(cluster, "t") == [None] * 3
        assert produced(cluster, "t", transactional_id="x") == [None] * 3
        assert read_errors(cluster, "t") == [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3
        cluster.brokers[2].restart(signal.SIGKILL)
        wait_until(lambda: in_sync(admin, "t") == 3, "the killed broker is in sync again", 30)
        assert produced(cluster, "t") == [None] * 3
        admin.create_acls(Acl(ME, O.READ, AclResourceType.TOPIC, "t"))
        wait_until(lambda: read_errors(cluster, "t") == [b"x"] * 3, "every broker has heard of it", 30)
