"""A topic becomes strict: replication goes on, and what was not synced before does not pass for synced."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
import trio

from kohort.broker.cluster.folder_life import FILE_NAME
from kohort.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from tests.cluster.broker_cluster import BrokerCluster, client_of
from tests.cluster.etcd_process import EtcdProcess
from tests.cluster.test_replication import QUICK, Writer, create, isr, leader, until, values_of
from tests.interop.broker_process import BrokerProcess

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
EVERYBODY = (1, 2, 3)
DEFAULT = "log.flush.interval.messages"
LIVES_LONG = "broker.session.timeout.ms=60000"


async def set_config(broker: BrokerProcess, kind: int, name: str, setting: str, value: str | None) -> None:
    """Set this, or with None take away what was set."""
    config = IncrementalAlterConfigsRequestAlterableConfig(
        name=setting, config_operation=SET if value is not None else DELETE, value=value
    )
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind, resource_name=name, configs=(config,)
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    answer = await (await client_of(broker)).ask(request, IncrementalAlterConfigsResponse)
    assert [each.error_code for each in answer.responses] == [0], answer


async def is_whole(cluster: BrokerCluster, topic: str) -> bool:
    return await isr(cluster.brokers[1], topic) == EVERYBODY


def has_unsynced(broker: BrokerProcess) -> bool:
    return bool(json.loads((broker.data / FILE_NAME).read_text())["has_unsynced"])


@pytest.mark.parametrize(
    ("configs", "change"),
    [
        ({"flush_messages": "1000"}, (TOPIC, "air", "flush.messages", "1")),
        ({"flush_messages": "1000"}, (TOPIC, "air", "flush.messages", None)),
        ({}, (BROKER, "", DEFAULT, "1")),
    ],
    ids=["set for the topic", "taken from the topic", "set for all brokers"],
)
async def test_followers_go_on_when_a_topic_becomes_strict(
    shared_etcd: EtcdProcess,
    tmp_path: Path,
    configs: dict[str, str],
    change: tuple[int, str, str, str | None],
) -> None:
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *QUICK) as cluster:
        if not configs:
            await set_config(cluster.brokers[1], BROKER, "", DEFAULT, "1000")
        await create(cluster, "air", min_insync_replicas="2", **configs)
        writer = Writer(cluster)
        writer.send("air", 50)
        assert await writer.flush() == 0
        assert all(has_unsynced(broker) for broker in cluster.brokers.values())
        await set_config(cluster.brokers[2], *change)

        async def are_synced() -> bool:
            return not any(has_unsynced(broker) for broker in cluster.brokers.values())

        await until(are_synced)
        writer.send("air", 5)
        assert await writer.flush() == 0
        assert not writer.errors
        await until(partial(is_whole, cluster, "air"))
        assert await values_of(cluster.bootstrap, "air") == writer.acknowledged


def lose_power(broker: BrokerProcess) -> None:
    """Leave a broker that was killed what was synced, which is nothing, and another run of its machine."""
    assert has_unsynced(broker)
    (segment,) = (broker.data / "air-0").glob("*.log")
    for path in (segment, *(broker.data / "air-0").glob("*index")):
        os.truncate(path, 0)
    lives = broker.data / FILE_NAME
    known = json.loads(lives.read_text())
    lives.write_text(json.dumps(known | {"boot_id": "another"}))


async def test_a_leader_that_lost_unsynced_records_is_in_no_isr_after_the_topic_became_strict(
    shared_etcd: EtcdProcess, tmp_path: Path
) -> None:
    """It is back within its lease, and finds that its topic is strict: that says nothing of its records."""
    with BrokerCluster(shared_etcd, uuid4().hex, tmp_path, 3, *QUICK, LIVES_LONG) as cluster:
        await create(cluster, "air", min_insync_replicas="2", flush_messages="1000")
        writer = Writer(cluster)
        writer.send("air", 50)
        assert await writer.flush() == 0
        led_by = await leader(cluster.brokers[1], "air")
        dying = cluster.brokers[led_by]
        others = [broker for broker in cluster.brokers.values() if broker is not dying]
        os.kill(dying.pid, signal.SIGSTOP)  # It does not hear of the change, and so syncs nothing.
        await set_config(others[0], TOPIC, "air", "flush.messages", "1")
        dying.kill()
        lose_power(dying)
        await trio.to_thread.run_sync(dying.start)

        async def is_led_by_another() -> bool:
            return await leader(others[0], "air") not in {led_by, -1}

        await until(is_led_by_another)
        await until(partial(is_whole, cluster, "air"))
        assert await values_of(others[0].bootstrap, "air") == writer.acknowledged
