"""Runs of keys on a broker: written in order, also in the least memory, and a failure is told."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
import trio

from kohort.client import NewTopic
from kohort.client.aio import Admin, Consumer, Producer
from kohort.client.batch import Appended, Batch
from kohort.client.errors import BrokerError, ConfigurationError, KohortError
from kohort.client.key_runs import KeyRun, send_keys
from kohort.client.values import TopicPartition
from kohort.protocol.errors import ErrorCode
from tests.client.conftest import running_broker

KEY_SIZE = 10


def keys_of(count: int) -> bytes:
    return b"".join(b"key %06d" % each for each in range(count))


async def test_a_run_is_written_in_order_in_the_least_memory(tmp_path: Path) -> None:
    topic, count = f"t-{uuid.uuid4().hex[:6]}", 3_000
    with running_broker("kohort", tmp_path) as bootstrap:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics(NewTopic(topic, partitions=2))
        async with Producer(
            bootstrap_servers=bootstrap, batch_size=1_000, batch_max_size=1_000, buffer_memory=4_000
        ) as producer:
            with trio.fail_after(30):
                run = await send_keys(producer, topic, 1, keys_of(count), b"v", key_size=KEY_SIZE)
                await run.wait()
                with pytest.raises(KohortError):
                    await send_keys(producer, topic, 7, keys_of(1), b"v", key_size=KEY_SIZE)
                with pytest.raises(ValueError, match="no keys of 2 bytes"):
                    await send_keys(producer, topic, 1, b"abb", b"v", key_size=2)
        async with Consumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign(TopicPartition(topic, 1))
            consumer.seek(TopicPartition(topic, 1), 0)
            found: list[bytes] = []
            with trio.fail_after(30):
                while len(found) < count:
                    found += [each.key or b"" for each in await consumer.poll(timeout_ms=500)]
        assert b"".join(found) == keys_of(count)


async def test_a_producer_with_a_serializer_refuses_a_key_run() -> None:
    producer = Producer(bootstrap_servers="127.0.0.1:1", value_serializer=str.encode)
    with pytest.raises(ConfigurationError):
        await send_keys(producer, "t", 0, b"k", b"v", key_size=1)


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_half_that_fails_fails_the_run(failing: int) -> None:
    batch = Batch(TopicPartition("t", 0), 0)
    batch.records.add_keys(0, keys_of(10), KEY_SIZE, b"v")
    run = KeyRun([(Appended(batch, 0, 0), 10)])
    for number, half in enumerate(batch.split()):
        half.base_offset = 5 * number
        half.finish(BrokerError(ErrorCode.MESSAGE_TOO_LARGE) if number == failing else None)
    with pytest.raises(BrokerError), trio.fail_after(5):
        await run.wait()


def test_a_run_is_done_when_the_last_half_is() -> None:
    batch = Batch(TopicPartition("t", 0), 0)
    batch.records.add_keys(0, keys_of(10), KEY_SIZE, b"v")
    told: list[KohortError | None] = []
    KeyRun([(Appended(batch, 2, 0), 7)]).when_done(told.append)
    first, second = batch.split()
    second_first, second_second = second.split()
    first.finish()
    second_second.finish()
    assert told == []
    failure = BrokerError(ErrorCode.MESSAGE_TOO_LARGE)
    second_first.finish(failure)
    assert told == [failure]
