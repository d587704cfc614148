"""Who is cancelled while its block ends commits and leaves its group all the same."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import Any

import anyio
import pytest

from kohort.client import Admin, ShareConsumer, TopicPartition, aio
from kohort.client import Consumer as BlockingConsumer
from kohort.client.completion import complete
from kohort.client.workers import AsyncWorkerPool, Order
from tests.client.steps import MakeTopic, produce

PROTOCOLS = ("classic", "consumer")
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


def slow_down(what: object, name: str, begun: anyio.Event) -> None:
    """Let a method say when it has begun, and then let other tasks go first."""
    method = getattr(what, name)

    async def slowly(*given: Any, **named: Any) -> None:
        begun.set()
        await anyio.sleep(0.1)
        await method(*given, **named)

    setattr(what, name, slowly)


async def consume_one(consumer: aio.Consumer, leaving: anyio.Event) -> None:
    async with consumer:
        slow_down(consumer._session, "leave", leaving)
        assert len(await consumer.poll(max_records=1)) == 1


def of_group(bootstrap: str, name: str, group: str, protocol: str) -> aio.Consumer:
    return aio.Consumer(
        name,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        group_protocol=protocol,
    )


def members_and_offset(bootstrap: str, name: str, group: str) -> tuple[int, int]:
    where = TopicPartition(name, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        members = admin.describe_groups(group)[group].members
        return len(members), admin.list_group_offsets(group)[where].offset


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("cancellations", [1, 3])
def test_a_consumer_cancelled_during_its_close_has_left_its_group(
    bootstrap: str, topic: MakeTopic, group: str, protocol: str, cancellations: int
) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)

    async def main() -> None:
        leaving = anyio.Event()
        task = asyncio.create_task(consume_one(of_group(bootstrap, name, group, protocol), leaving))
        await leaving.wait()
        for _ in range(cancellations):
            task.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    anyio.run(main)
    assert members_and_offset(bootstrap, name, group) == (0, 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_asyncio_timeout_around_a_close_is_raised_after_the_group_was_left(
    bootstrap: str, topic: MakeTopic, group: str, protocol: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)

    async def main() -> None:
        consumer = of_group(bootstrap, name, group, protocol)
        async with consumer:
            slow_down(consumer._session, "leave", anyio.Event())
            assert len(await consumer.poll(max_records=1)) == 1
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.close(), 0.02)

    anyio.run(main)
    assert members_and_offset(bootstrap, name, group) == (0, 1)


@both_loops
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cancelled_scope_around_an_unsubscribe_leaves_the_group(
    bootstrap: str, topic: MakeTopic, group: str, protocol: str, loop: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)

    async def main() -> None:
        async with of_group(bootstrap, name, group, protocol) as consumer:
            assert len(await consumer.poll(max_records=1)) == 1
            slow_down(consumer._session.commits, "auto_now", anyio.Event())
            with anyio.move_on_after(0.02) as scope:
                await consumer.unsubscribe()
            assert scope.cancelled_caught
            async with aio.Admin(bootstrap_servers=bootstrap) as admin:
                assert (await admin.describe_groups(group))[group].members == ()
            consumer.subscribe(name)
            assert len(await consumer.poll(max_records=1)) == 1

    anyio.run(main, backend=loop)
    assert members_and_offset(bootstrap, name, group) == (0, 2)


@both_loops
def test_a_scope_cancelled_during_a_close_waits_for_the_leave(
    bootstrap: str, topic: MakeTopic, group: str, loop: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)

    async def main() -> None:
        leaving = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume_one, of_group(bootstrap, name, group, "classic"), leaving)
            await leaving.wait()
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=loop)
    assert members_and_offset(bootstrap, name, group) == (0, 1)


def test_a_share_consumer_cancelled_during_its_close_has_left_and_acknowledged(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)

    async def main() -> None:
        leaving = anyio.Event()
        told: list[int] = []
        consumer = aio.ShareConsumer(
            name,
            bootstrap_servers=bootstrap,
            group_id=group,
            on_acknowledged=lambda offsets, error: told.append(sum(map(len, offsets.values()))),
        )

        async def consume() -> None:
            async with consumer:
                slow_down(consumer._session, "leave", leaving)
                while not await consumer.poll(timeout_ms=100):
                    produce_one = asyncio.to_thread(produce, bootstrap, name, 1)
                    await produce_one

        task = asyncio.create_task(consume())
        await leaving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sum(told) >= 1
        async with aio.Admin(bootstrap_servers=bootstrap) as admin:
            assert (await admin.describe_groups(group))[group].members == ()

    anyio.run(main)


def test_a_cancelled_pool_commits_finished_work_and_leaves(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 20)

    async def main() -> None:
        stuck = anyio.Event()

        async def handle(record: object) -> None:
            if getattr(record, "offset", 0) == 10:
                stuck.set()
                await anyio.sleep_forever()

        pool = AsyncWorkerPool(
            name,
            handler=handle,
            order=Order.PARTITION,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
        )
        task = asyncio.create_task(pool.run())
        await stuck.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task

    anyio.run(main)
    assert members_and_offset(bootstrap, name, group) == (0, 10)


def interrupt_soon() -> None:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_an_interrupt_during_a_blocking_close_is_raised_after_the_leave(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)
    consumer: BlockingConsumer = BlockingConsumer(
        name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    )
    assert len(consumer.poll(max_records=1)) == 1
    slow_down(consumer._session, "leave", anyio.Event())
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    assert members_and_offset(bootstrap, name, group) == (0, 1)


def test_an_interrupt_during_a_blocking_share_close_is_raised_after_the_leave(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    consumer: ShareConsumer = ShareConsumer(topic(1), bootstrap_servers=bootstrap, group_id=group)
    while not consumer.assignment():
        consumer.poll(timeout_ms=20)
    slow_down(consumer._session, "leave", anyio.Event())
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_groups(group)[group].members == ()


def test_an_interrupt_of_trios_main_task_waits_for_the_leave(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 3)

    async def main() -> None:
        consumer = of_group(bootstrap, name, group, "classic")
        async with consumer:
            slow_down(consumer._session, "leave", anyio.Event())
            assert len(await consumer.poll(max_records=1)) == 1
            interrupt_soon()

    with pytest.raises(KeyboardInterrupt):
        anyio.run(main, backend="trio")
    assert members_and_offset(bootstrap, name, group) == (0, 1)


@both_loops
def test_the_wait_of_a_cancelled_task_has_a_limit(loop: str) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(5), anyio.move_on_after(0.01) as scope:
                await complete(tasks, anyio.sleep_forever, patience_ms=20)
        assert scope.cancelled_caught

    anyio.run(main, backend=loop)


@both_loops
def test_an_error_of_the_work_is_raised_to_the_waiter(loop: str) -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            with suppress(ZeroDivisionError):
                await complete(tasks, fail, patience_ms=20)
                raise AssertionError("nothing was raised")

    anyio.run(main, backend=loop)
