"""Share groups of several brokers: who leads a partition, who keeps its state and who coordinates differ.

`ROUNDS` says how many brokers are killed, `SEED` repeats the moments of a run that failed.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import trio
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from kohort.broker.coordination.dead_letter_records import OFFSET_HEADER, PARTITION_HEADER, TOPIC_HEADER
from kohort.client import AcknowledgeType, Admin, Consumer, ResourceType, ShareConsumer
from kohort.client import NewTopic as PlacedTopic
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster, client_of, topic_of
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.share_members import (
    ShareMember,
    configure,
    kohort_share_member,
    produce,
    python_share_member,
    wait_for,
)
from tests.interop.threads import Members
from tests.interop.waiting import wait_until
from tests.kills.test_dead_letters import kind_of

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
LETTERS, LIMIT = "dlq.jobs", 10
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
def test_partitions_states_and_groups_can_be_on_different_brokers(
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
def test_each_record_is_completed_for_any_broker_that_dies(
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


def make_letters_elsewhere(cluster: BrokerCluster) -> None:
    """Have each partition's letters led by another broker than the partition; the group names their topic."""
    led = trio.run(topic_of, cluster.brokers[1], TOPIC).partitions
    nodes = sorted(cluster.brokers)
    replicas = {
        each.partition_index: [*nodes[nodes.index(each.leader_id) + 1 :], *nodes][: len(nodes)]
        for each in led
    }
    configs = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": "2"}
    values = {
        "share.delivery.count.limit": str(LIMIT),
        "errors.deadletterqueue.topic.name": LETTERS,
        "errors.deadletterqueue.copy.record.enable": "true",
    }
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics(PlacedTopic(LETTERS, configs=configs, replicas=replicas))
        admin.alter_configs(ResourceType.GROUP, GROUP, values=values)


@pytest.mark.requirement("R32")
def test_each_archived_record_has_a_dead_letter_for_any_broker_that_dies(
    cluster: BrokerCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A third is rejected, a third released as often as it comes; letters go to partitions led elsewhere."""
    chance = random.Random(SEED)
    servers = cluster.bootstrap
    make_letters_elsewhere(cluster)
    written: list[int] = []
    letters: Counter[int] = Counter()
    origins: dict[tuple[bytes | None, ...], int] = {}
    misplaced: list[object] = []

    def work(stopping: threading.Event) -> None:
        with ShareConsumer(
            TOPIC,
            bootstrap_servers=servers,
            group_id=GROUP,
            share_acknowledgement_mode="explicit",
            max_poll_records=20,
        ) as consumer:
            while not stopping.is_set():
                for record in consumer.poll(timeout_ms=100):
                    consumer.acknowledge(record, kind_of(int(record.value or b"0")))

    def read_letters(stopping: threading.Event) -> None:
        with Consumer(
            LETTERS, bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest"
        ) as consumer:
            while not stopping.is_set():
                for each in consumer.poll(timeout_ms=100):
                    number, told = int(each.value or b"-1"), dict(each.headers)
                    origin = tuple(told[name] for name in (TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER))
                    letters[number] += 1
                    if (
                        origins.setdefault(origin, number) != number
                        or int(origin[1] or b"-1") != each.partition
                    ):
                        misplaced.append(each)

    def write(count: int) -> None:
        numbers = range(len(written), len(written) + count)
        produce(cluster.bootstrap, TOPIC, [str(number) for number in numbers])
        written.extend(numbers)

    def given_up() -> set[int]:
        return {number for number in written if kind_of(number) is not AcknowledgeType.ACCEPT}

    members, readers = Members(2, work), Members(1, read_letters)
    for _ in range(ROUNDS):
        write(150)
        wait_until(lambda: readers.errors or letters, "a letter is read", PATIENCE_SECONDS)
        time.sleep(chance.random())  # Any moment will do.
        victim = cluster.brokers[chance.choice(tuple(cluster.brokers))]
        victim.kill()
        write(150)
        wait_until(
            lambda: members.errors or readers.errors or given_up() <= letters.keys(),
            "each has its letter, though a broker is away",
            3 * PATIENCE_SECONDS,
        )
        victim.start()
    wait_until(
        lambda: members.errors or lags(cluster) == [0] * PARTITIONS,
        "everything is done with",
        3 * PATIENCE_SECONDS,
    )
    members.stop()
    readers.stop()
    assert letters.keys() == given_up(), "who is accepted gets none"
    assert not misplaced, "each is in the partition of its record's number, and names its record"
    with capsys.disabled():
        sys.stdout.write(
            f"\ndead letters of a cluster: {len(letters)} records given up, {letters.total() - len(letters)}"
            f" letters twice, {ROUNDS} brokers killed (SEED={SEED})\n"
        )
