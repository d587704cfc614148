"""Two registries on a cluster of three brokers, of which one stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kohort.broker.transport.addresses import Address
from kohort.client import Admin
from kohort.registry.records import TOPIC
from kohort.testing import Cluster
from kohort.testing.schema_registry import RunningRegistry
from tests.registry.asking import ask, register

pytest.importorskip("httpx", reason="the extra `cluster` has httpx")

WRITES_BEFORE, WRITES_BEHIND = 5, 15


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


def test_no_acknowledged_schema_is_lost_or_duplicated_when_the_leader_stops(cluster: Cluster) -> None:
    registries = [RunningRegistry(cluster.bootstrap, Address("127.0.0.1", 0)) for _ in range(2)]
    urls = [f"http://{each.address}" for each in registries]
    told: dict[str, int] = {}
    failures: list[BaseException] = []
    has_begun, has_stopped = threading.Semaphore(0), threading.Event()

    def write(number: int) -> None:
        try:
            for count in range(WRITES_BEFORE + WRITES_BEHIND):
                if count == WRITES_BEFORE:
                    has_begun.release()
                    has_stopped.wait(60)
                subject = f"s{number}-{count}"
                told[subject] = register(
                    urls[number], subject, {"type": "enum", "name": subject.replace("-", "_"), "symbols": []}
                )
        except BaseException as failure:
            failures.append(failure)
            has_begun.release()
            raise

    threads = [threading.Thread(target=write, args=(each,)) for each in range(2)]
    for each in threads:
        each.start()
    for _ in threads:
        assert has_begun.acquire(timeout=60)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        partition = admin.describe_topics(TOPIC)[TOPIC].partitions[0]
    assert len(partition.replicas) == 3
    cluster.brokers[partition.leader].stop()
    has_stopped.set()
    for each in threads:
        each.join(120)
    assert not failures
    assert len(told) == 2 * (WRITES_BEFORE + WRITES_BEHIND)
    assert len(set(told.values())) == len(told), "an id was given twice"
    for url in urls:
        assert ask(url, "GET", "/subjects").content == sorted(told)
        for subject, schema_id in told.items():
            assert ask(url, "GET", f"/subjects/{subject}/versions/1").content["id"] == schema_id
    for registry in registries:
        registry.close()
