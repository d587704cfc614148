"""Fetch sessions of consumers that are closed, as a broker process counts them."""

from __future__ import annotations

import os
import signal
import urllib.request

import anyio
import pytest

from kohort.client import Consumer, TopicPartition
from kohort.client.aio import Consumer as AsyncConsumer
from tests.client.steps import LONG_MS, MakeTopic, has_ended, produce
from tests.interop.broker_process import BrokerProcess
from tests.interop.waiting import wait_until

pytestmark = pytest.mark.skipif(
    "KOHORT_TEST_BOOTSTRAP" in os.environ, reason="that broker has no page with its sessions"
)


def sessions(broker: BrokerProcess) -> int:
    """Return how many the broker keeps."""
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=10) as page:
        (line,) = (
            each for each in page.read().decode().splitlines() if each.startswith("kohort_fetch_sessions ")
        )
    return round(float(line.split()[1]))


def reading(broker: BrokerProcess, topic: str) -> Consumer:
    """Return a consumer without a group that has read, and has a session by now."""
    consumer = Consumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        request_timeout_ms=LONG_MS,
        default_api_timeout_ms=LONG_MS,
    )
    consumer.assign(TopicPartition(topic, 0))
    wait_until(lambda: consumer.poll(timeout_ms=100), "a record")
    wait_until(lambda: sessions(broker) == 1, "the broker keeps a session")
    return consumer


def test_a_consumer_that_is_closed_ends_its_session(
    broker: BrokerProcess, topic: MakeTopic, group: str
) -> None:
    name = topic(2)
    produce(broker.bootstrap, name, 1)
    with Consumer(
        name, group_id=group, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        wait_until(lambda: consumer.poll(timeout_ms=100), "a record")
        wait_until(lambda: sessions(broker) == 1, "the broker keeps a session")
    wait_until(lambda: sessions(broker) == 0, "the broker has forgotten it")


def test_an_asynchronous_consumer_ends_its_sessions_too(broker: BrokerProcess, topic: MakeTopic) -> None:
    name = topic(1)
    produce(broker.bootstrap, name, 1)

    async def main() -> None:
        async with AsyncConsumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(TopicPartition(name, 0))
            await anext(consumer)
            while await anyio.to_thread.run_sync(sessions, broker) != 1:
                await consumer.poll(timeout_ms=100)

    anyio.run(main)
    wait_until(lambda: sessions(broker) == 0, "the broker has forgotten it")


def test_a_close_waits_only_a_limited_time_for_a_stuck_broker(
    broker: BrokerProcess, topic: MakeTopic
) -> None:
    name = topic(1)
    produce(broker.bootstrap, name, 1)
    consumer = reading(broker, name)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        consumer.close(timeout_ms=300)
        assert has_ended(consumer)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_a_close_reports_no_error_for_a_missing_broker(broker: BrokerProcess, topic: MakeTopic) -> None:
    name = topic(1)
    produce(broker.bootstrap, name, 1)
    wait_until(lambda: sessions(broker) == 0, "no other session is kept")
    consumer = reading(broker, name)
    broker.kill()
    try:
        consumer.close(timeout_ms=LONG_MS)
        assert has_ended(consumer)
    finally:
        broker.start()
