"""Share groups of several brokers: who leads a partition, who keeps its state and who coordinates differ.

`ROUNDS` says how many brokers are killed, `SEED` repeats the moments of a run that failed.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import trio
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages import (
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster, client_of
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.share_members import (
    ShareMember,
    configure,
    kohort_share_member,
    produce,
    python_share_member,
    wait_for,
)
from tests.interop.waiting import wait_until

ROUNDS = int(os.environ.get("ROUNDS", "2"))
SEED = int(os.environ.get("SEED") or random.randrange(2**32))
SETTINGS = (
    "replica.lag.time.max.ms=1000",
    "replica.fetch.backoff.ms=100",
    "share.coordinator.state.topic.num.partitions=6",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.min.record.lock.duration.ms=1000",
)
TOPIC, PARTITIONS = "jobs", 6
GROUP = "workers"
ELSEWHERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers with a topic, and with a share group that begins at its start."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *SETTINGS) as cluster:
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([topic])[TOPIC].result(PATIENCE_SECONDS)
        configure(
            cluster.bootstrap, GROUP, share_record_lock_duration_ms="2000", share_heartbeat_interval_ms="500"
        )
        yield cluster


@pytest.fixture
def members() -> Iterator[list[ShareMember]]:
    """Members that a test starts; all are gone after it."""
    started: list[ShareMember] = []
    yield started
    for each in started:
        each.kill()


def both(cluster: BrokerCluster) -> list[ShareMember]:
    """Return a member that is librdkafka's, and one of kohort's own."""
    servers = cluster.bootstrap
    return [
        python_share_member(servers, GROUP, TOPIC),
        kohort_share_member(servers, GROUP, TOPIC, "explicit"),
    ]


def lags(cluster: BrokerCluster) -> list[int]:
    """Return how many records are ahead of the group, by partition; [] where no coordinator says it."""

    async def ask() -> list[int]:
        for broker in cluster.brokers.values():
            if not broker.is_running():
                continue
            group = DescribeShareGroupOffsetsGroup(group_id=GROUP, topics=None)
            request = DescribeShareGroupOffsetsRequest(groups=(group,))
            client = await client_of(broker)
            (described,) = (await client.ask(request, DescribeShareGroupOffsetsResponse)).groups
            if described.error_code not in ELSEWHERE:
                assert not described.error_code, described
                return [each.lag for topic in described.topics for each in topic.partitions]
        return []

    return trio.run(ask)


@pytest.mark.requirement("R32")
def test_partitions_states_and_groups_may_be_on_different_brokers(
    cluster: BrokerCluster, members: list[ShareMember]
) -> None:
    """Six partitions with their states spread over three brokers: whoever leads asks who keeps."""
    values = [f"job-{number}" for number in range(600)]
    produce(cluster.bootstrap, TOPIC, values)
    members += both(cluster)
    wait_for(*members, values=values, timeout_s=PATIENCE_SECONDS)
    wait_until(lambda: lags(cluster) == [0] * PARTITIONS, "everything is done with", PATIENCE_SECONDS)
    assert sorted(members[0].values + members[1].values) == sorted(values), "nobody was late"


@pytest.mark.requirement("R32")
def test_each_record_is_dealt_with_whichever_broker_dies(
    cluster: BrokerCluster, members: list[ShareMember], capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    written: list[str] = []

    def write(count: int) -> None:
        values = [f"job-{len(written) + number}" for number in range(count)]
        produce(cluster.bootstrap, TOPIC, values)
        written.extend(values)

    write(300)
    members += both(cluster)
    wait_until(lambda: any(each.values for each in members), "somebody is handed something", PATIENCE_SECONDS)
    for _ in range(ROUNDS):
        write(150)
        time.sleep(chance.random())  # Any moment will do.
        victim = cluster.brokers[chance.choice(tuple(cluster.brokers))]
        victim.kill()
        write(150)
        wait_for(*members, values=written, timeout_s=2 * PATIENCE_SECONDS)
        victim.start()
    wait_until(lambda: lags(cluster) == [0] * PARTITIONS, "everything is done with", 2 * PATIENCE_SECONDS)
    handed = sum(len(each.values) for each in members)
    with capsys.disabled():
        sys.stdout.write(
            f"\nshare group of a cluster: {len(written)} jobs, {handed - len(written)} more deliveries,"
            f" {ROUNDS} brokers killed (SEED={SEED})\n"
        )
