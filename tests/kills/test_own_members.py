"""The broker is killed under kohort's own members of consumer groups and of share groups: they go on."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from kohort.client import Admin, Consumer, NewTopic, Producer, ResourceType, ShareConsumer
from tests.interop.broker_process import BrokerProcess
from tests.interop.threads import Members
from tests.interop.waiting import wait_until

SETTINGS = (
    "group.consumer.heartbeat.interval.ms=300",
    "group.share.heartbeat.interval.ms=300",
    "group.share.record.lock.duration.ms=2000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.min.record.lock.duration.ms=1000",
    "offsets.topic.replication.factor=1",
)
COUNT = 600
KILLS = min(int(os.environ.get("ROUNDS", "1")), 10)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that is killed."""
    process = BrokerProcess(tmp_path_factory.mktemp("killed"), *SETTINGS)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """A topic of four partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic(name, partitions=4))
    return name


def produce_while_killed(broker: BrokerProcess, topic: str) -> None:
    """Write all numbers; the broker is killed now and then."""
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(COUNT):
            producer.send(topic, b"%d" % number, partition=number % 4)
            if number % (COUNT // (KILLS + 1)) == COUNT // (KILLS + 1) - 1 and number < COUNT - 1:
                time.sleep(0.5)  # Members are in the middle of something.
                broker.restart(signal.SIGKILL)


@pytest.mark.requirement("R32")
def test_each_record_of_a_share_group_is_completed_despite_broker_kills(
    broker: BrokerProcess, topic: str
) -> None:
    """An acknowledgement whose answer the kill cuts off may be kept: then its record does not come again."""
    group = f"group-{uuid.uuid4().hex[:8]}"
    seen: Counter[int] = Counter()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs(ResourceType.GROUP, group, values={"share.auto.offset.reset": "earliest"})

    def work(stopping: threading.Event) -> None:
        with ShareConsumer(
            topic, bootstrap_servers=broker.bootstrap, group_id=group, max_poll_records=20
        ) as consumer:
            while not stopping.is_set():
                seen.update(int(each.value or b"-1") for each in consumer.poll(timeout_ms=100))

    def is_done() -> bool:
        found = admin.list_share_group_offsets(group)
        return len(found) == 4 and all(
            each.lag == 0 for each in found.values()
        )  # None before the first fetch.

    members = Members(2, work)
    produce_while_killed(broker, topic)
    wait_until(lambda: members.errors or len(seen) == COUNT, "each was handed out", 40)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        wait_until(lambda: members.errors or is_done(), "the group is done with all", 40)
    members.stop()


def test_members_of_a_consumer_group_stay_despite_broker_kills(broker: BrokerProcess, topic: str) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    seen: Counter[int] = Counter()

    def work(stopping: threading.Event) -> None:
        with Consumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            group_protocol="consumer",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=100,
        ) as consumer:
            while not stopping.is_set():
                seen.update(int(each.value or b"-1") for each in consumer.poll(timeout_ms=100))

    members = Members(2, work)
    produce_while_killed(broker, topic)
    wait_until(lambda: members.errors or len(seen) == COUNT, "all is read", 40)
    members.stop()
    assert seen == Counter(range(COUNT)), "nobody was put out, and so nothing is read twice"
