"""A broker whose disk takes nothing more gives its leaderships away, and follows once it takes something."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.broker_cluster import BrokerCluster
from tests.cluster.etcd_process import EtcdProcess
from tests.cluster.test_replication import QUICK, Writer, create, isr, leader, until, values_of

LOG_BYTES = 256 * 1024
"""What the broker may still write into its own log, which is a file like any other."""


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster(shared_etcd, tmp_path.name, tmp_path, 3, *QUICK) as cluster:
        yield cluster


def grow_no_further(pid: int, size_bytes: int) -> None:
    """Let no file of a process be larger: what a full disk refuses, this refuses as EFBIG."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


async def test_other_brokers_lead_partitions_of_a_full_disk(cluster: BrokerCluster) -> None:
    await create(cluster, "air")
    led_by = await leader(cluster.brokers[1], "air")
    full = cluster.brokers[led_by]
    other = cluster.brokers[led_by % 3 + 1]
    writer = Writer(cluster, b"-" * 20_000)
    writer.send("air", 40)
    assert await writer.flush() == 0
    grow_no_further(full.pid, full.log_path.stat().st_size + LOG_BYTES)
    writer.send("air", 40)
    assert await writer.flush(15) == 0
    assert full.is_running()
    assert await leader(other, "air") != led_by
    resource.prlimit(full.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)

    async def is_whole(broker: int) -> bool:
        return await isr(cluster.brokers[broker], "air") == (1, 2, 3)

    await until(partial(is_whole, led_by % 3 + 1))
    assert not writer.errors
    assert await values_of(cluster.bootstrap, "air") == writer.acknowledged
    assert len(writer.acknowledged) == 80
