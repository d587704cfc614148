"""Whether a broker is ready, and the cluster whole, as a rolling restart has to know."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen
from uuid import uuid4

from confluent_kafka import Producer

from kohort.client import Admin, NewTopic, ResourceType
from tests.cli import here
from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

PARTITIONS = 6
RATE = "follower.replication.throttled.rate"
SETTINGS = ("replica.lag.time.max.ms=1000", "replica.fetch.backoff.ms=100", "offsets.topic.num.partitions=3")


def ready(broker: BrokerProcess) -> tuple[int, Any]:
    """Return the status, and the reasons why it is not ready."""
    try:
        with urlopen(f"http://{broker.http}/health/ready", timeout=PATIENCE_SECONDS) as answer:
            return 200, json.load(answer)["reasons"]
    except HTTPError as error:
        return error.code, json.load(error)["reasons"]


def waited(cluster: BrokerCluster, *options: str) -> here.Done:
    return here.kohort(
        "cluster", "wait", "--json", *options, "-b", cluster.bootstrap, environment=dict(os.environ)
    )


def problems(cluster: BrokerCluster, *options: str) -> list[str]:
    return list(json.loads(waited(cluster, "--timeout", "0", *options).stdout)["problems"])


def produce(cluster: BrokerCluster, topic: str, size_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(PARTITIONS):
        producer.produce(topic, b"x" * size_bytes, partition=number)
    assert producer.flush(PATIENCE_SECONDS) == 0


def test_the_broker_is_ready_and_the_cluster_healthy_after_replicas_caught_up(
    shared_etcd: EtcdProcess, tmp_path: Path
) -> None:
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *SETTINGS) as cluster:
        first, last = cluster.brokers[1], cluster.brokers[3]
        with Admin(bootstrap_servers=first.bootstrap) as admin:
            slow = {"follower.replication.throttled.replicas": "*"}
            admin.create_topics(NewTopic("t", PARTITIONS, 3, configs=slow))
        done = waited(cluster, "--healthy", "--timeout", "60")
        assert (done.returncode, json.loads(done.stdout)) == (0, {"healthy": True, "problems": []})
        last.kill()
        produce(cluster, "t", 100_000)
        wait_until(lambda: len(problems(cluster)) == 2, "the broker is missed", PATIENCE_SECONDS)
        gone, behind = problems(cluster)
        assert gone == "brokers that hold replicas do not run: 3"
        assert f"{PARTITIONS} partitions have replicas that are not in sync: t-0" in behind
        assert problems(cluster, "--brokers", "3")[0] == "2 of 3 brokers run: 1, 2"
        assert ready(first) == (200, [])  # It serves what it leads: clients are not to be kept away.
        last.settings = (*last.settings, f"{RATE}=1000")
        last.start()
        status, reasons = ready(last)
        assert status == 503
        assert any("replicas are not in sync yet: t-0" in each for each in reasons)
        assert waited(cluster, "--timeout", "1").returncode == 1
        with Admin(bootstrap_servers=last.bootstrap) as admin:
            admin.alter_configs(ResourceType.BROKER, "3", values={RATE: "1000000000"})
        assert waited(cluster, "--timeout", "60").returncode == 0
        assert ready(last) == (200, [])
