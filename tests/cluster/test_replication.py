"""Three brokers that copy each other's records: what was acknowledged survives whoever dies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import trio
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.broker_cluster import PATIENCE_SECONDS, BrokerCluster, topic_of
from tests.cluster.etcd_process import EtcdProcess
from tests.interop.broker_process import BrokerProcess


@pytest.fixture
def cluster(shared_etcd: EtcdProcess, tmp_path: Path) -> Iterator[BrokerCluster]:
    """Three brokers."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3) as cluster:
        yield cluster


async def create(cluster: BrokerCluster, name: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic with three replicas, and return once every broker knows it."""
    config = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=3, config=config)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (made,) = admin.create_topics([topic]).values()
    await trio.to_thread.run_sync(made.result, PATIENCE_SECONDS)
    for broker in cluster.brokers.values():
        await until(lambda broker=broker: _is_known(broker, name))  # type: ignore[misc]


async def _is_known(broker: BrokerProcess, name: str) -> bool:
    return (await topic_of(broker, name)).error_code == 0


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not await holds():
            await trio.sleep(0.02)


class Writer:
    """A producer that waits for every in-sync replica, and knows what it was told of each record."""

    def __init__(self, cluster: BrokerCluster, **settings: object) -> None:
        self.acknowledged: list[bytes] = []
        self.errors: list[object] = []
        self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                **settings,
            }
        )

    def send(self, topic: str, count: int, partition: int = 0) -> None:
        """Send so many records, each with a number of its own."""
        for _ in range(count):
            self._producer.produce(
                topic, b"%d" % self._sent, partition=partition, on_delivery=self._delivered
            )
            self._sent += 1

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.append(message.value())  # type: ignore[attr-defined]
        else:
            self.errors.append(error)

    async def flush(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Return how many records are still under way when all are answered, or the time is up."""
        return await trio.to_thread.run_sync(self._producer.flush, seconds)

    def poll(self) -> None:
        """Hear what has been answered so far."""
        self._producer.poll(0)


async def values_of(bootstrap: str, topic: str, partition: int = 0, **settings: object) -> list[bytes]:
    """Return every value of a partition, up to the end that its leader tells."""

    def read() -> list[bytes]:
        reader = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": uuid4().hex,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        try:
            reader.assign([TopicPartition(topic, partition, 0)])
            values: list[bytes] = []
            while True:
                message = reader.poll(PATIENCE_SECONDS)
                assert message is not None, "nothing can be read"
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    return values
                values.append(message.value())
        finally:
            reader.close()

    return await trio.to_thread.run_sync(read)


async def isr(broker: BrokerProcess, topic: str) -> tuple[int, ...]:
    """Return who is in sync, in the order of the node ids."""
    return tuple(sorted((await topic_of(broker, topic)).partitions[0].isr_nodes))


async def leader(broker: BrokerProcess, topic: str) -> int:
    """Return who leads the topic's first partition, -1 where nobody does."""
    return (await topic_of(broker, topic)).partitions[0].leader_id


async def test_records_are_on_all_brokers_when_they_are_acknowledged(cluster: BrokerCluster) -> None:
    await create(cluster, "air")
    writer = Writer(cluster)
    writer.send("air", 500)
    assert await writer.flush() == 0
    assert not writer.errors
    assert await values_of(cluster.bootstrap, "air") == writer.acknowledged
    segments = [(broker.data / "air-0" / f"{0:020}.log").read_bytes() for broker in cluster.brokers.values()]
    assert segments[0]
    assert segments[0] == segments[1] == segments[2]


async def test_what_was_acknowledged_survives_its_leader(cluster: BrokerCluster) -> None:
    await create(cluster, "air", min_insync_replicas="2")
    writer = Writer(cluster)
    for _ in range(2):
        writer.send("air", 300)
        await trio.sleep(0.05)  # So that the leader dies in the middle of something.
        writer.send("air", 300)
        led_by = await leader(cluster.brokers[1], "air")
        cluster.brokers[led_by].kill()
        writer.send("air", 300)
        assert await writer.flush() == 0
        cluster.brokers[led_by].start()
        other = next(each for node_id, each in cluster.brokers.items() if node_id != led_by)

        async def all_in_sync(other: BrokerProcess = other) -> bool:
            return await isr(other, "air") == (1, 2, 3)

        await until(all_in_sync)
    assert not writer.errors
    assert await values_of(cluster.bootstrap, "air") == [b"%d" % number for number in range(1_800)]
