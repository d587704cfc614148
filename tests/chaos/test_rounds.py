"""Brokers die, stand still, lose their disks and each other, and etcd its members, under clients that go on.

`make chaos ROUNDS=n SEED=n`; a round is one fault, and the wait until every partition is whole again.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import trio
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from kohort.protocol.errors import ErrorCode
from tests.chaos.clients import MEMBERS, PARTITIONS, TOPIC, Member, Writer
from tests.chaos.history import History, Log
from tests.chaos.links import Links, Proxy
from tests.cluster.broker_cluster import PATIENCE_SECONDS, SESSION_MS, BrokerCluster, described, topic_of
from tests.cluster.etcd_process import EtcdMembers
from tests.cluster.test_brokers import coordinator
from tests.cluster.test_replication import LAG_MS, QUICK, create, until
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool
from tests.ports import free_port
from tests.repetitions import only_by_night

ROUNDS = int(os.environ.get("ROUNDS", "10"))
TOPICS = (TOPIC, "__consumer_offsets")
LOOK_AGAIN = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
)
LOG_BYTES = 64 * 1024
"""What a broker on a full disk may still write into its log: that lies elsewhere."""


class Chaos:
    """What goes wrong, one at a time. Blocks."""

    def __init__(
        self, cluster: BrokerCluster, etcd: EtcdMembers, links: Links, chance: random.Random
    ) -> None:
        self._cluster = cluster
        self._etcd = etcd
        self._links = links
        self._chance = chance
        self.kinds = (
            self.a_broker_is_killed,
            self.a_coordinator_is_killed,
            self.a_broker_stands_still_for_longer_than_its_lease,
            self.a_broker_comes_back_empty,
            self.a_link_is_cut,
            self.a_link_is_cut_one_way,
            self.a_broker_is_cut_off_from_the_others,
            self.a_member_of_etcd_is_killed,
            self.a_member_of_etcd_stands_still,
            self.a_disk_is_full,
            self.a_broker_comes_back_from_a_backup,
            self.all_are_restarted_one_by_one,
        )

    def _any(self) -> int:
        return self._chance.choice(tuple(self._cluster.brokers))

    def a_broker_is_killed(self) -> None:
        self._kill(self._any())

    def a_coordinator_is_killed(self) -> None:
        self._kill(trio.run(coordinator, self._cluster.brokers[self._any()], "kohort"))

    def _kill(self, node_id: int) -> None:
        broker = self._cluster.brokers[node_id]
        broker.kill()
        time.sleep(self._chance.choice((0.0, 0.5, 1.5 * SESSION_MS / 1_000)))
        broker.start()

    def a_broker_stands_still_for_longer_than_its_lease(self) -> None:
        broker = self._cluster.brokers[self._any()]
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            time.sleep((1.2 + self._chance.random()) * SESSION_MS / 1_000)
        finally:
            os.kill(broker.pid, signal.SIGCONT)

    def a_broker_comes_back_empty(self) -> None:
        broker = self._cluster.brokers[self._any()]
        broker.kill()
        shutil.rmtree(broker.data)
        broker.start()

    def a_link_is_cut(self) -> None:
        one, other = self._chance.sample(tuple(self._cluster.brokers), 2)
        self._cut((one, other), (other, one))

    def a_link_is_cut_one_way(self) -> None:
        one, other = self._chance.sample(tuple(self._cluster.brokers), 2)
        self._cut((one, other))

    def a_broker_is_cut_off_from_the_others(self) -> None:
        one = self._any()
        others = [each for each in self._cluster.brokers if each != one]
        self._cut(*((one, each) for each in others), *((each, one) for each in others))

    def _cut(self, *ways: tuple[int, int]) -> None:
        """Cut links for so short that nobody may notice, or until who lags has left the in-sync replicas."""
        for source, target in ways:
            self._links.cut(source, target)
        time.sleep(self._chance.choice((0.3, 1.0, 3.0)) * LAG_MS / 1_000)
        self._links.heal()

    def a_member_of_etcd_is_killed(self) -> None:
        member = self._chance.choice(self._etcd.members)
        member.kill()
        time.sleep(1.5 * SESSION_MS / 1_000)
        member.start()

    def a_member_of_etcd_stands_still(self) -> None:
        member = self._chance.choice(self._etcd.members)
        member.signal(signal.SIGSTOP)
        time.sleep(1.5 * SESSION_MS / 1_000)
        member.signal(signal.SIGCONT)

    def a_disk_is_full(self) -> None:
        """Let a broker's files grow no further: what a full disk refuses, this refuses as EFBIG."""
        broker = self._cluster.brokers[self._any()]
        largest = max(each.stat().st_size for each in broker.data.glob(f"{TOPIC}-*/*.log"))
        _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        room = max(largest, broker.log_path.stat().st_size + LOG_BYTES)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (room, hard))
        time.sleep(2 * LAG_MS / 1_000)
        if broker.is_running():
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (hard, hard))
        else:
            broker.start()

    def a_broker_comes_back_from_a_backup(self) -> None:
        """Restore what a broker had two lives ago: it lacks what was acknowledged since."""
        broker = self._cluster.brokers[self._any()]
        backup = broker.data.with_name("backup")
        broker.kill()
        shutil.copytree(broker.data, backup)
        for _ in range(2):
            broker.start()
            whole(self._cluster)
            time.sleep(0.5)
            broker.kill()
        shutil.rmtree(broker.data)
        backup.rename(broker.data)
        broker.start()

    def all_are_restarted_one_by_one(self) -> None:
        for broker in self._cluster.brokers.values():
            broker.stop()
            broker.start()
            whole(self._cluster)


def whole(cluster: BrokerCluster) -> None:
    """Return once every broker says that all replicas of all partitions are in sync."""

    async def is_whole(broker: BrokerProcess, topic: str) -> bool:
        found = await topic_of(broker, topic)
        return found.error_code == ErrorCode.NONE and all(
            sorted(each.isr_nodes) == [1, 2, 3] and each.leader_id > 0 for each in found.partitions
        )

    for broker in cluster.brokers.values():
        for topic in TOPICS:
            trio.run(until, partial(is_whole, broker, topic))


def behind_a_proxy(cluster: BrokerCluster, node_id: int, links: Links) -> Proxy:
    """Have others reach a broker that has not been started by a proxy alone."""
    broker = cluster.brokers[node_id]
    broker.bootstrap = f"127.0.0.1:{free_port()}"
    proxy = Proxy(node_id, broker.address, links)
    broker.options = ("--advertise", f"127.0.0.1:{proxy.address[1]}")
    return proxy


def look_up(bootstrap: str, history: History, members: list[Member]) -> None:
    """Tell the history what offsets each group has by now."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for member in members:
        before = history.commits(member.name)
        history.looked_up(before, offsets_of(admin, member.name))


def offsets_of(admin: AdminClient, group_id: str) -> dict[int, int]:
    """Return a group's offsets, once its coordinator has them: a full disk may have taken it offline."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)]).values()
        try:
            found = asked.result(PATIENCE_SECONDS).topic_partitions
        except KafkaException as error:
            if error.args[0].code() not in LOOK_AGAIN or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return {each.partition: each.offset for each in found}


def log_of(bootstrap: str, partition: int) -> Log:
    """Return a partition from its first record to its last."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid4().hex, "enable.partition.eof": True})
    try:
        reader.assign([TopicPartition(TOPIC, partition, 0)])
        found: list[tuple[int, bytes]] = []
        while True:
            message = reader.poll(PATIENCE_SECONDS)
            assert message is not None, "nothing can be read"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            found.append((message.offset(), message.value()))
    finally:
        reader.close()


@only_by_night
def test_no_record_is_lost_or_duplicated_and_no_group_rebalances_under_chaos(
    etcd_members: EtcdMembers, tmp_path: Path
) -> None:
    seed = int(os.environ.get("SEED") or random.randrange(2**31))
    sys.stdout.write(f"\nSEED={seed}\n")
    history = History()
    links, cluster = Links(), BrokerCluster(etcd_members, uuid4().hex, tmp_path, 3, *QUICK)
    proxies = [behind_a_proxy(cluster, node_id, links) for node_id in cluster.brokers]
    with cluster:
        trio.run(until, partial(all_are_known, cluster))
        trio.run(partial(create, cluster, TOPIC, PARTITIONS, min_insync_replicas="2"))
        writer = Writer(cluster.bootstrap, history)
        members = begun(cluster.bootstrap, history)
        for each in (writer, *members):
            each.start()
        trio.run(until, partial(all_have_committed, members))
        chaos = Chaos(cluster, etcd_members, links, random.Random(seed))
        for number in range(ROUNDS):
            kind = chaos.kinds[number % len(chaos.kinds)]
            sys.stdout.write(f"{number + 1}: {kind.__name__.replace('_', ' ')}\n")
            kind()
            whole(cluster)
            look_up(cluster.bootstrap, history, members)
            trio.run(until, all_go_on(writer, members))
        for each in (writer, *members):
            each.stop()
        logs = {partition: log_of(cluster.bootstrap, partition) for partition in range(PARTITIONS)}
    for proxy in proxies:
        proxy.close()
    told = {each.name: (each.commits, each.refused) for each in members}
    sys.stdout.write(f"{len(history.acknowledged)} records acknowledged; commits, refused: {told}\n")
    assert len(history.acknowledged) > 100 * ROUNDS
    assert history.violations(logs) == [], f"SEED={seed}"
    assert writer.errors == []
    assert links.held_bytes or len(chaos.kinds) > ROUNDS


def begun(bootstrap: str, history: History) -> list[Member]:
    """Return a member by each client that is here."""
    members = []
    for make in MEMBERS:
        try:
            members.append(make(bootstrap, history))
        except MissingTool as missing:
            sys.stdout.write(f"without {make}: {missing}\n")
    return members


async def all_are_known(cluster: BrokerCluster) -> bool:
    """Return whether each broker knows all the others."""
    brokers = cluster.brokers.values()
    return all([len((await described(each)).brokers) == len(brokers) for each in brokers])


def all_go_on(writer: Writer, members: list[Member]) -> Callable[[], Awaitable[bool]]:
    """Return whether, since now, something new of each partition was acknowledged, and each group commits."""
    began = {each: writer.acknowledged[each] for each in range(PARTITIONS)}
    commits = {each.name: each.commits for each in members}

    async def go_on() -> bool:
        for each in (writer, *members):
            assert each.failure is None, f"{each.name}: {each.failure!r}"
        return all(writer.acknowledged[each] > count for each, count in began.items()) and all(
            each.commits > commits[each.name] for each in members
        )

    return go_on


async def all_have_committed(members: list[Member]) -> bool:
    """Return whether every group is at work."""
    for each in members:
        assert each.failure is None, f"{each.name}: {each.failure!r}"
    return all(each.commits for each in members)
