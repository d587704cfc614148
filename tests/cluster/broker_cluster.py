"""Several brokers in processes of their own on one etcd, as their users run them."""

from __future__ import annotations

from pathlib import Path

import trio

from kohort.broker.coordination.test_shard import Client
from kohort.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kohort.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.cluster.etcd_process import EtcdMembers, EtcdProcess
from tests.interop.broker_process import BrokerProcess

PATIENCE_SECONDS = 30
SESSION_MS = 2_000
SETTINGS = (
    f"broker.session.timeout.ms={SESSION_MS}",
    "broker.heartbeat.interval.ms=200",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
    "offsets.topic.num.partitions=6",
)


class BrokerCluster:
    """Brokers 1 to `count`, each in a rack of its own unless a setting says otherwise."""

    def __init__(
        self, etcd: EtcdProcess | EtcdMembers, name: str, folder: Path, count: int, *settings: str
    ) -> None:
        self.url = f"etcd://{etcd.endpoints}/{name}"
        self._folder = folder
        self._settings = settings
        self.brokers = {node_id: self.broker(node_id) for node_id in range(1, count + 1)}

    def broker(self, node_id: int, *settings: str, folder: str | None = None) -> BrokerProcess:
        """Return a broker of this cluster that has not been started."""
        own = self._folder / (folder or str(node_id))
        own.mkdir(exist_ok=True)
        place = (f"kohort.cluster={self.url}", f"node.id={node_id}", f"broker.rack=r{node_id}")
        return BrokerProcess(own, *SETTINGS, *self._settings, *place, *settings)

    def __enter__(self) -> BrokerCluster:
        for broker in self.brokers.values():
            broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.kill()

    @property
    def bootstrap(self) -> str:
        """Where clients may begin."""
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.is_running())


async def client_of(broker: BrokerProcess) -> Client:
    """Return a connection to this broker and no other."""
    return Client(await trio.open_tcp_stream(*broker.address))


async def described(broker: BrokerProcess) -> DescribeClusterResponse:
    """Return what the broker says of the cluster."""
    return await (await client_of(broker)).ask(
        DescribeClusterRequest(include_cluster_authorized_operations=False), DescribeClusterResponse
    )


async def topic_of(broker: BrokerProcess, name: str) -> MetadataResponseTopic:
    """Return what the broker says of a topic."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    (topic,) = (await (await client_of(broker)).ask(request, MetadataResponse)).topics
    return topic
