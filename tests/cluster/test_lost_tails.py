"""A leader whose disk loses, while it runs, what its followers have: they have it, and it counts."""

from __future__ import annotations

import errno
import os

from confluent_kafka import Producer

from kohort.broker.broker import Broker as RealBroker
from kohort.storage import PartitionLog
from kohort.testing import Cluster

TOPIC = "air"
SYNCED_EVERY = 50


def break_sync(broker: RealBroker) -> None:
    """Let the next sync of the topic's log fail: what was written since the last one is lost with it."""
    partition = broker.partitions.get(TOPIC, 0)
    assert partition is not None
    log: PartitionLog = partition.log

    def fail() -> None:
        log._has_sync_failed = True
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    log._sync = fail  # type: ignore[method-assign]  # As a disk does.


def test_records_of_followers_survive_a_leader_with_a_failed_sync() -> None:
    with Cluster(replica_lag_time_max_ms=1_000) as cluster:
        cluster.create_topic(TOPIC, 1, flush_messages=SYNCED_EVERY)
        cluster.until(lambda: cluster.in_sync(TOPIC) == {1, 2, 3})
        acknowledged: list[str] = []
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0}
        )

        def send(count: int) -> None:
            for _ in range(count):
                value = str(sent.pop())
                producer.produce(
                    TOPIC,
                    value,
                    partition=0,
                    on_delivery=lambda error, message: error or acknowledged.append(message.value().decode()),
                )
                producer.flush(0.05)

        sent = list(range(100, 0, -1))
        send(SYNCED_EVERY - 10)
        assert producer.flush(10) == 0
        assert len(acknowledged) == SYNCED_EVERY - 10
        leader = cluster.leader(TOPIC)
        before = cluster._partition(TOPIC, 0).leader_epoch
        leader._core.call(break_sync)
        send(30)
        assert producer.flush(30) == 0
        cluster.until(lambda: cluster.in_sync(TOPIC) == {1, 2, 3}, 30)
        assert cluster._partition(TOPIC, 0).leader_epoch > before
        assert [each.value for each in cluster.records(TOPIC)] == [each.encode() for each in acknowledged]
        assert acknowledged == [str(each) for each in range(1, SYNCED_EVERY + 21)]
