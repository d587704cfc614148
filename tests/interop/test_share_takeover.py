"""A share group of Apache Kafka goes on where it was once kohort serves its folder; make interop runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # Its home says otherwise.

from tests.differential.apache_kafka import running
from tests.interop.broker_process import BrokerProcess
from tests.interop.conftest import MIXED_VARIABLE
from tests.interop.kafka_tools import MissingTool
from tests.interop.share_members import configure, java_share_member, produce, wait_for

GROUP, TOPIC = "workers", "jobs"
SETTINGS = (
    "offsets.topic.replication.factor=1",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)


@pytest.mark.skipif(MIXED_VARIABLE not in os.environ, reason=f"{MIXED_VARIABLE}=1 runs it")
def test_records_acknowledged_to_kafka_are_not_delivered_again(tmp_path: Path) -> None:
    done, left = ([f"{what}-{index}" for index in range(10)] for what in ("done", "left"))
    try:
        with running(tmp_path, *SETTINGS) as bootstrap:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(15)
            configure(bootstrap, GROUP)
            produce(bootstrap, TOPIC, done)
            member = java_share_member(bootstrap, GROUP, TOPIC)
            wait_for(member, values=done)
            member.close()
            produce(bootstrap, TOPIC, left)
    except MissingTool as missing:
        pytest.skip(str(missing))
    broker = BrokerProcess(tmp_path, "node.id=1")
    broker.data = tmp_path / "logs"  # Kafka's log.dirs.
    broker.start()
    try:
        member = java_share_member(broker.bootstrap, GROUP, TOPIC)
        wait_for(member, values=left)
        member.close()
        assert sorted(member.values) == left
    finally:
        broker.stop()
