"""`kohort groups explain` says when a group was taken over, and for how long it had no coordinator."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer

from tests.cli import here
from tests.cluster.broker_cluster import PATIENCE_SECONDS, SESSION_MS, BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.cluster.test_brokers import coordinator
from tests.cluster.test_replication import QUICK, create

GROUP = "flights"


class Member(threading.Thread):
    """The group's one member, which polls until it is told to end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.assignments = 0
        self._ends = threading.Event()
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
        self._consumer.subscribe(["air"], on_assign=self._assigned)

    def _assigned(self, *_: object) -> None:
        self.assignments += 1

    def run(self) -> None:
        """The thread's own."""
        while not self._ends.is_set():
            self._consumer.poll(0.1)
        self._consumer.close()

    def stop(self) -> None:
        """Return when it has left."""
        self._ends.set()
        self.join()


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster(shared_etcd, tmp_path.name, tmp_path, 3, *QUICK) as cluster:
        yield cluster


def _explained(cluster: BrokerCluster, *options: str) -> here.Done:
    arguments = ("groups", "explain", GROUP, *options, "-b", cluster.bootstrap)
    return here.kohort(*arguments, environment=dict(os.environ))


def explained(cluster: BrokerCluster, *options: str) -> str:
    done = _explained(cluster, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail_over(cluster: BrokerCluster, count: int) -> dict[str, object]:
    """Return the newest of so many that are told of."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        told = json.loads(explained(cluster, "--json"))["fail_overs"]
        if len(told) == count:
            return dict(told[-1])
        assert time.monotonic() < deadline, told
        time.sleep(0.2)


def test_a_killed_and_a_stopping_coordinator_are_explained(cluster: BrokerCluster) -> None:
    trio.run(partial(create, cluster, "air", 3))
    member = Member(cluster.bootstrap)
    member.start()
    try:
        _has_begun(cluster)
        killed = trio.run(coordinator, cluster.brokers[1], GROUP)
        cluster.brokers[killed].kill()
        gone = fail_over(cluster, 1)
        assert (gone["former_node_id"], gone["why"], gone["members"]) == (killed, "is gone", 1)
        assert 0 < int(str(gone["silent_ms"])) < SESSION_MS
        assert f"instead of broker {killed}, which is gone" in explained(cluster)
        cluster.brokers[killed].start()
        stopped = int(str(gone["node_id"]))
        cluster.brokers[stopped].stop()
        moved = fail_over(cluster, 2)
        assert moved["former_node_id"] == stopped
        assert moved["why"] in {"stops", "is gone"}
        assert member.assignments == 1
    finally:
        member.stop()


def _has_begun(cluster: BrokerCluster) -> None:
    """Return once the group's first rebalance is told of: the topic of events is made with the first."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (told := _explained(cluster, "--json").stdout) or not json.loads(told)["rebalances"]:
        assert time.monotonic() < deadline, told
        time.sleep(0.2)
