"""Brokers restarted one after the other, and killed, under clients that must not notice more than a pause."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from kohort.client import Admin
from tests.cluster.broker_cluster import BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.cluster.traffic import SETTINGS, TOPIC, Traffic, admin, create_topic, is_whole, until
from tests.repetitions import only_by_night


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers with a topic that all of them hold."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *SETTINGS) as cluster:
        create_topic(cluster)
        yield cluster


def leaders(asked: Admin) -> set[int]:
    return {each.leader for each in asked.describe_topic_partitions(TOPIC)[TOPIC].partitions}


def test_clients_do_not_notice_a_rolling_restart(cluster: BrokerCluster) -> None:
    with admin(cluster) as asked, Traffic(cluster.bootstrap) as traffic:
        until(lambda: traffic.delivered > 50 and sum(map(len, traffic.read.values())) > 50)
        for broker in cluster.brokers.values():
            broker.restart(signal.SIGTERM)
            until(lambda: is_whole(asked))
    traffic.check()


@only_by_night
def test_a_killed_broker_pauses_clients_and_loses_no_record(cluster: BrokerCluster) -> None:
    with admin(cluster) as asked, Traffic(cluster.bootstrap) as traffic:
        until(lambda: traffic.delivered > 50 and sum(map(len, traffic.read.values())) > 50)
        for node_id, broker in cluster.brokers.items():
            broker.kill()
            until(lambda gone=node_id: not {gone, -1} & leaders(asked))  # type: ignore[misc]
            broker.start()
            until(lambda: is_whole(asked))
    traffic.check()
