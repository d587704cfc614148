"""Asynchronous clients that one task opens and another one closes, and clients of another event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import anyio
import pytest

from kohort.client import ClosedError, ConcurrentAccessError
from kohort.client.aio import Admin, ClusterConnection, Consumer, Delivery, Producer, ShareConsumer

PATIENCE_S = 30.0
NOWHERE = "127.0.0.1:1"
MakeTopic = Callable[[int], str]
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


@both_loops
def test_one_task_can_start_what_another_stops(
    bootstrap: str, topic: MakeTopic, group: str, loop: str
) -> None:
    name = topic(1)
    shared = ClusterConnection(bootstrap_servers=bootstrap)
    producer, admin = Producer(cluster=shared), Admin(cluster=shared)
    consumer = Consumer(name, cluster=shared, group_id=group, auto_offset_reset="earliest")
    workers = ShareConsumer(name, cluster=shared, group_id=f"{group}-shared")
    clients = (shared, producer, admin, consumer, workers)

    async def set_up() -> None:
        for each in clients:
            assert await each.start() is each

    async def use() -> None:
        await (await producer.send(name, b"one"))
        assert name in await admin.list_topics()
        assert [each.value for each in await consumer.poll(timeout_ms=10_000)] == [b"one"]
        await producer.send(name, b"two")  # Which `stop` writes.

    async def tear_down() -> None:
        for each in reversed(clients):
            await each.stop()
        with pytest.raises(ClosedError):
            await producer.send(name, b"three")
        for each in clients:
            await each.stop()  # A second time it does nothing.

    async def main() -> None:
        with anyio.fail_after(PATIENCE_S):
            for step in (set_up, use, tear_down):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(step)
            async with Consumer(bootstrap_servers=bootstrap, group_id=group) as heir:
                heir.subscribe(name)
                assert [each.value for each in await heir.poll(timeout_ms=10_000)] == [b"two"]

    anyio.run(main, backend=loop)


def test_fixtures_that_run_in_tasks_of_their_own(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    with asyncio.Runner() as runner:
        producer = runner.run(Producer(bootstrap_servers=bootstrap).start())

        async def use() -> None:
            await (await producer.send(name, b"one"))

        runner.run(use())
        runner.run(producer.stop())


@both_loops
def test_a_start_that_is_cancelled_and_a_client_that_was_never_started(loop: str) -> None:
    async def main() -> None:
        await Producer(bootstrap_servers=NOWHERE).stop()
        producer = Producer(bootstrap_servers=NOWHERE)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await producer.start()
        await producer.stop()
        with pytest.raises(ClosedError, match="make another one"):
            await producer.start()

    anyio.run(main, backend=loop)


def test_leaving_a_block_in_another_task_says_what_to_do(bootstrap: str) -> None:
    async def enter() -> Producer:
        return await Producer(bootstrap_servers=bootstrap).__aenter__()

    async def leave(producer: Producer) -> None:
        await producer.__aexit__(None, None, None)

    async def main() -> None:
        producer = await asyncio.create_task(enter())
        with pytest.raises(RuntimeError, match=r"start\(\)` and `await client.stop"):
            await asyncio.create_task(leave(producer))

    asyncio.run(main())


@pytest.mark.parametrize("call", ["send", "flush", "partitions_for"])
@both_loops
def test_another_event_loop_is_detected(bootstrap: str, topic: MakeTopic, loop: str, call: str) -> None:
    name = topic(2)
    raised: list[BaseException] = []
    delivery: list[Delivery] = []

    async def elsewhere(producer: Producer) -> None:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "send": lambda: producer.send(name, b"", partition=1),
            "flush": producer.flush,
            "partitions_for": lambda: producer.partitions_for(name),
        }
        for each in (calls[call], lambda: delivery[0]):
            with (
                anyio.fail_after(5),
                pytest.raises(ConcurrentAccessError, match="another event loop") as caught,
            ):
                await each()  # type: ignore[misc]
            raised.append(caught.value)

    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap, linger_ms=2_000) as producer:
            await producer.send(name, b"first")
            await producer.flush()
            delivery.append(await producer.send(name, b"second", partition=0))
            thread = threading.Thread(target=lambda: anyio.run(elsewhere, producer, backend=loop))
            thread.start()
            await anyio.to_thread.run_sync(thread.join)
            await delivery[0]

    anyio.run(main, backend=loop)
    assert len(raised) == 2


def test_a_client_of_a_closed_loop_raises_an_error(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    producer = first.run_until_complete(Producer(bootstrap_servers=bootstrap).start())
    admin = first.run_until_complete(Admin(bootstrap_servers=bootstrap).start())
    first.run_until_complete(producer.partitions_for(name))
    first.run_until_complete(admin.list_topics())

    async def use() -> None:
        with pytest.raises(ConcurrentAccessError, match="another event loop"):
            await producer.send(name, b"")
        with pytest.raises(ConcurrentAccessError, match="another event loop"):
            await admin.list_topics()

    second.run_until_complete(asyncio.wait_for(use(), 5))
    second.close()
    first.run_until_complete(producer.stop())
    first.run_until_complete(admin.stop())
    first.close()
