"""Transactions whose calls are cancelled anywhere, and a broker that has fallen silent."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import pytest

from kohort.client import TopicPartition
from kohort.client.aio import Producer
from tests.client.test_transactions import committed
from tests.interop.broker_process import BrokerProcess

PATIENCE_S = 60.0
MakeTopic = Callable[[int], str]
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


@both_loops
@pytest.mark.usefixtures("protocol")
def test_after_cancelled_transactions_the_next_one_succeeds(
    bootstrap: str, topic: MakeTopic, group: str, transactional_id: str, loop: str
) -> None:
    name = topic(2)
    dice = random.Random(7)

    async def main() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer:
                for turn in range(40):
                    if turn % 8 == 0:
                        with anyio.move_on_after(dice.uniform(0, 0.004)):
                            await producer.init_transactions()
                    with anyio.move_on_after(dice.uniform(0, 0.02)):
                        async with producer.transaction():
                            await producer.send(name, b"maybe", partition=turn % 2)
                            await producer.send_offsets({TopicPartition(name, 0): turn}, group)
                    if turn % 4 == 0:
                        async with producer.transaction():
                            await (await producer.send(name, b"counts", partition=turn % 2))

    anyio.run(main, backend=loop)
    values = committed(bootstrap, name, 10)
    assert values.count(b"counts") == 10


@contextmanager
def silent(broker: BrokerProcess) -> Iterator[None]:
    """Stop the broker's process, whose connections stay."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@pytest.mark.parametrize("where", ["in the block", "at its end", "by an exception", "offsets"])
def test_a_time_limit_around_a_transaction_holds_with_a_silent_broker(
    broker: BrokerProcess, topic: MakeTopic, transactional_id: str, where: str
) -> None:
    name = topic(1)

    async def transact(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send(name, b"never", partition=0)
            if where == "in the block":
                await asyncio.sleep(PATIENCE_S)
            if where == "offsets":
                await producer.send_offsets({TopicPartition(name, 0): 1}, "group")
            if where == "by an exception":
                await asyncio.sleep(0.2)  # The record is on its way.
                raise ZeroDivisionError

    async def main() -> None:
        async with Producer(
            bootstrap_servers=broker.bootstrap, transactional_id=transactional_id
        ) as producer:
            async with producer.transaction():
                await producer.send(name, b"counts", partition=0)
            with silent(broker):
                began_s = time.monotonic()
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(transact(producer), 1)
                assert time.monotonic() - began_s < 10, "the abort goes on without us"
            async with producer.transaction():
                await producer.send(name, b"counts", partition=0)

    asyncio.run(main())
    assert committed(broker.bootstrap, name, 2) == [b"counts", b"counts"]


def test_leaving_the_producer_block_takes_no_longer(
    broker: BrokerProcess, topic: MakeTopic, transactional_id: str
) -> None:
    name = topic(1)

    async def main() -> None:
        async with Producer(
            bootstrap_servers=broker.bootstrap, transactional_id=transactional_id
        ) as producer:
            async with producer.transaction():
                await producer.send(name, b"counts", partition=0)
            os.kill(broker.pid, signal.SIGSTOP)
            async with producer.transaction():
                await producer.send(name, b"never", partition=0)
                await asyncio.sleep(PATIENCE_S)

    began_s = time.monotonic()
    try:
        with pytest.raises(asyncio.TimeoutError):
            asyncio.run(asyncio.wait_for(main(), 1))
        assert time.monotonic() - began_s < 15
    finally:
        os.kill(broker.pid, signal.SIGCONT)
