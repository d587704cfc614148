"""Kafka Streams in a streams group of several brokers, whose coordinator is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import trio

from kohort.client import Admin, NewTopic
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster, client_of
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.kafka_tools import MissingTool
from tests.interop.streams_applications import (
    PARTITIONS,
    SETTINGS,
    Counted,
    StreamsApplication,
)
from tests.interop.waiting import wait_until

GROUP = "word-count"
OWN = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "replica.lag.time.max.ms=1000",
    "replica.fetch.backoff.ms=100",
)


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers with the topics of a word count."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *SETTINGS, *OWN) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            topics = (
                NewTopic(name, partitions=PARTITIONS, replication_factor=3) for name in ("lines", "counts")
            )
            admin.create_topics(*topics)
        yield cluster


def coordinator_of(cluster: BrokerCluster, group_id: str) -> int:
    """Return the id of the broker that coordinates the group, once there is one."""
    found: list[int] = []

    async def ask() -> bool:
        broker = next(each for each in cluster.brokers.values() if each.is_running())
        request = FindCoordinatorRequest(coordinator_keys=(group_id,))
        answer = await (await client_of(broker)).ask(request, FindCoordinatorResponse)
        (each,) = answer.coordinators
        if not each.error_code:
            found.append(each.node_id)
        return bool(found)

    wait_until(lambda: trio.run(ask), "the group has a coordinator", PATIENCE_SECONDS)
    return found[0]


@pytest.mark.requirement("R32")
def test_words_are_counted_once_while_the_coordinator_is_killed(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    what = ("count", "lines", "counts")
    try:
        one = StreamsApplication(cluster.bootstrap, GROUP, tmp_path / "one", *what)
        two = StreamsApplication(cluster.bootstrap, GROUP, tmp_path / "two", *what)
    except MissingTool as missing:
        pytest.skip(str(missing))
    counted = Counted(lambda: cluster.bootstrap)
    with one, two:
        one.wait_for("RUNNING")
        two.wait_for("RUNNING")
        counted.write()
        victim = coordinator_of(cluster, GROUP)
        cluster.brokers[victim].kill()
        counted.write()
        assert coordinator_of(cluster, GROUP) != victim
        two.kill()  # Who coordinates now puts its members out, and one gets its tasks.
        counted.write()
        cluster.brokers[victim].start()
        two.start()
        two.wait_for("RUNNING")
        counted.write()
    counted.check()
