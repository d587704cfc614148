"""Requests that wait for logs to be opened, of clients that do not wait for them any more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from kohort.broker.broker import Broker
from kohort.broker.coordination.test_shard import Client, running
from kohort.broker.handlers import opening
from kohort.broker.handlers.test_opening import (
    NEWEST_BY_NAME,
    SlowLogs,
    produced,
    producing,
    restarted,
)
from kohort.protocol.limits import PRODUCE_KEY

NO_REQUEST = bytes.fromhex("00000004ffffffff")


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> SlowLogs:
    return SlowLogs(monkeypatch)


@pytest.fixture
async def broker(tmp_path: Path, logs: SlowLogs) -> AsyncIterator[Broker]:
    """Yield a broker whose logs are not open; one has a record."""
    logs.may_open.set()
    await restarted(tmp_path)
    logs.may_open.clear()
    logs.threads.clear()
    async with running(tmp_path) as broker:
        yield broker


async def give_up(
    broker: Broker, logs: SlowLogs, *, acks: int, requests: int = 3, value: bytes = b"given up"
) -> None:
    """Produce, close the connection before the log is open, and return once the broker knows that."""
    before = broker.reactor.connections
    client = await Client.to(broker)
    frames = [client.frame(producing(value, acks), NEWEST_BY_NAME)[0] for _ in range(requests)]
    await client.send(*frames)
    await logs.begun()
    with trio.fail_after(5):
        while broker.request_counters.requests[PRODUCE_KEY] < requests:
            await trio.sleep(0.005)
        await client.aclose()
        while broker.reactor.connections > before:
            await trio.sleep(0.005)


async def test_requests_of_a_client_that_has_gone_are_dropped(broker: Broker, logs: SlowLogs) -> None:
    await give_up(broker, logs, acks=-1)
    logs.may_open.set()
    client = await Client.to(broker)
    assert [await produced(client, producing(b"again")) for _ in range(2)] == [[(0, 1)], [(0, 2)]]


async def test_a_request_is_dropped_whose_connection_closes_in_the_same_round(
    broker: Broker, logs: SlowLogs
) -> None:
    client = await Client.to(broker)
    await client.send(client.frame(producing(b"given up"), NEWEST_BY_NAME)[0], NO_REQUEST)
    with trio.fail_after(5):
        assert await client.receive() is None
    logs.may_open.set()
    assert await produced(await Client.to(broker), producing(b"again")) == [(0, 1)]


@pytest.mark.parametrize("kept", [3, 2])
async def test_records_of_a_producer_that_awaits_no_answers_are_kept_within_a_limit(
    broker: Broker, logs: SlowLogs, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(opening, "UNANSWERED_BYTES_MAX", kept * 100_000 + 50_000)
    await give_up(broker, logs, acks=0, value=bytes(100_000))
    logs.may_open.set()
    partition = await broker.partitions.opened("t", 0)
    with trio.fail_after(5):
        while partition.high_watermark < 1 + kept:
            await trio.sleep(0.005)
    assert await produced(await Client.to(broker), producing(b"heard")) == [(0, 1 + kept)]
