"""Clients that outlive their broker, a program that forgets them, and an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from kohort.client import LATEST, Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from kohort.client.config import ConsumerOptions
from tests.client.steps import Diary, MakeTopic, numbers, produce, read
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until


@pytest.mark.skipif("KOHORT_TEST_BOOTSTRAP" in os.environ, reason="that broker is not ours to restart")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_of_the_broker_loses_nothing_and_needs_no_help(
    broker: BrokerProcess, topic: MakeTopic, group: str, how: signal.Signals
) -> None:
    name = topic(2)
    options: ConsumerOptions = {
        "bootstrap_servers": broker.bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 200,
    }
    told = Diary()
    with (
        Producer(bootstrap_servers=broker.bootstrap) as producer,
        Consumer(name, listener=told, **options) as consumer,
    ):
        deliveries = [producer.send(name, value=b"%d" % number) for number in range(100)]
        records = read(consumer, 100)
        broker.restart(how)
        deliveries += [producer.send(name, value=b"%d" % number) for number in range(100, 200)]
        records += read(consumer, 100)
        consumer.commit()
        assert all(each.result().offset >= 0 for each in deliveries)
    assert sorted(set(numbers(records))) == list(range(200))
    assert told.events == [("assigned", 2), ("revoked", 2)], "no rebalance"


def test_a_program_without_a_close_still_commits_and_leaves_at_its_end(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)
    program = f"""
from kohort.client import Consumer, Producer
producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=10_000, request_timeout_ms=5_000)
producer.send({name!r}, value=b"3")
options = dict(bootstrap_servers={bootstrap!r}, group_id={group!r}, auto_offset_reset="earliest")
consumer = Consumer({name!r}, **options)
for record in consumer:
    if record.offset == 2:
        break
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    where = TopicPartition(name, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_groups(group)[group].state == "Empty"
        assert admin.list_group_offsets(group) == {where: OffsetAndMetadata(3, leader_epoch=0)}
        assert admin.list_offsets({where: LATEST})[where].offset == 4, "what was sent is there"


def test_an_interrupt_ends_a_poll_and_the_consumer_continues(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    with Consumer(
        name, group_id=group, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=50) or consumer.assignment(), "an assignment")
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll()
        produce(bootstrap, name, 1)
        assert numbers(read(consumer, 1)) == [0]


@pytest.mark.requirement("R22")
@pytest.mark.parametrize("instance", [None, "one"])
@pytest.mark.parametrize("leave_group", [None, True, False])
def test_close_decides_whether_partitions_are_reassigned_at_once(
    bootstrap: str, topic: MakeTopic, group: str, instance: str | None, leave_group: bool | None
) -> None:
    name = topic(1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        consumer = Consumer(name, bootstrap_servers=bootstrap, group_id=group, group_instance_id=instance)
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        consumer.close(leave_group=leave_group)
        stays = (instance is not None) if leave_group is None else not leave_group
        assert len(admin.describe_groups(group)[group].members) == int(stays)
