"""Three brokers on etcd, upgraded one after the other under clients that must not notice, and back again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.broker_cluster import BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.cluster.traffic import SETTINGS, Traffic, admin, create_topic, is_whole, until
from tests.repetitions import only_by_night
from tests.upgrade import contents
from tests.upgrade.contents import START_SECONDS_MAX, Written, found

pytestmark = only_by_night
BROKERS = 3
REPLICATED = (
    "transaction.state.log.replication.factor=3",
    "share.coordinator.state.topic.replication.factor=3",
)


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path, old_command: str) -> Iterator[BrokerCluster]:
    """Three brokers of the earlier version, and topics that all of them hold."""
    settings = (*dict.fromkeys((*SETTINGS, *contents.SETTINGS, *REPLICATED)),)
    cluster = BrokerCluster(shared_etcd, uuid4().hex, tmp_path, BROKERS, *settings)
    for each in cluster.brokers.values():
        each.command, each.start_timeout_s = old_command, START_SECONDS_MAX
    with cluster:
        create_topic(cluster)
        yield cluster


def roll(cluster: BrokerCluster, command: str) -> None:
    """Start one broker after the other by another command."""
    with admin(cluster) as asked:
        for broker in cluster.brokers.values():
            broker.command = command
            broker.restart(signal.SIGTERM)
            until(lambda: is_whole(asked))


def test_a_cluster_is_upgraded_under_load_and_goes_back(cluster: BrokerCluster) -> None:
    old, ours = cluster.brokers[1].command, cluster.broker(BROKERS + 1).command
    written = Written(cluster.bootstrap, replication=BROKERS)
    written.prepare()
    written.write()
    left_open = written.leave_a_transaction_open()
    before = found(cluster.bootstrap)
    with Traffic(cluster.bootstrap) as traffic:
        until(lambda: traffic.delivered > 50)
        roll(cluster, ours)
        assert found(cluster.bootstrap) == before
        written.write()
        written.end_the_open_transaction()
        now = found(cluster.bootstrap)
        roll(cluster, old)
        assert found(cluster.bootstrap) == now
        written.write()
        roll(cluster, ours)
        written.finish_the_jobs()
    traffic.check()
    del left_open
