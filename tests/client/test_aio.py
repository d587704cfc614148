"""The asynchronous clients against a broker process, under both event loops."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio
import pytest

from kohort.client import NewTopic, TopicPartition
from kohort.client.aio import Admin, Consumer, Producer, RebalanceListener

MakeTopic = Callable[[int], str]
both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


@both_loops
def test_tasks_produce_and_consume_together(bootstrap: str, topic: MakeTopic, group: str, loop: str) -> None:
    name = topic(3)
    seen: list[int] = []

    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer, anyio.create_task_group() as tasks:
            tasks.start_soon(consume)
            deliveries = [await producer.send(name, value=b"%d" % number) for number in range(300)]
            assert sum([(await each).offset >= 0 for each in deliveries]) == 300

    async def consume() -> None:
        async with Consumer(
            name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                seen.append(int(record.value or b"-1"))
                if len(seen) == 300:
                    break

    async def limited() -> None:
        with anyio.fail_after(30):
            await main()

    anyio.run(limited, backend=loop)
    assert sorted(seen) == list(range(300))


@both_loops
def test_listeners_are_awaited_and_a_cancelled_poll_can_be_repeated(
    bootstrap: str, topic: MakeTopic, group: str, loop: str
) -> None:
    name = topic(2)
    events: list[tuple[str, int]] = []

    class Told(RebalanceListener):
        async def on_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
            await anyio.sleep(0)
            events.append(("assigned", len(partitions)))

        async def on_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
            await anyio.sleep(0)
            events.append(("revoked", len(partitions)))

    async def main() -> None:
        async with Consumer(name, listener=Told(), bootstrap_servers=bootstrap, group_id=group) as consumer:
            while not consumer.assignment():
                with anyio.move_on_after(0.01):
                    await consumer.poll()
            assert await consumer.poll(timeout_ms=10) == []
            assert set(await consumer.partitions_for(name)) == set(consumer.assignment())

    anyio.run(main, backend=loop)
    assert events == [("assigned", 2), ("revoked", 2)]


@both_loops
def test_a_cancelled_consumer_commits_and_leaves_at_once(
    bootstrap: str, topic: MakeTopic, group: str, loop: str
) -> None:
    name = topic(1)

    async def consume(joined: anyio.Event) -> None:
        async with Consumer(
            name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            while not await consumer.poll(timeout_ms=100):
                pass
            await consumer.poll(timeout_ms=0)  # The first ones are done.
            joined.set()
            await consumer.poll()

    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await (await producer.send(name, b"x"))
        joined = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume, joined)
            with anyio.fail_after(30):
                await joined.wait()
            began_s = anyio.current_time()
            tasks.cancel_scope.cancel()
        assert anyio.current_time() - began_s < 4
        async with Admin(bootstrap_servers=bootstrap) as admin:
            (described,) = (await admin.describe_groups(group)).values()
            assert described.members == ()
            offsets = await admin.list_group_offsets(group)
        assert offsets[TopicPartition(name, 0)].offset == 1

    anyio.run(main, backend=loop)


@both_loops
def test_the_admin_of_both_loops(bootstrap: str, topic: MakeTopic, loop: str) -> None:
    name = topic(1)

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics(
                NewTopic(f"{name}-2", partitions=2, configs={"cleanup.policy": "compact"})
            )
            assert {name, f"{name}-2"} <= set(await admin.list_topics())

    anyio.run(main, backend=loop)


@both_loops
@pytest.mark.parametrize("acks", ["all", 0])
def test_accepted_records_are_written_although_the_block_raises(
    bootstrap: str, topic: MakeTopic, loop: str, acks: str | int
) -> None:
    name = topic(1)
    where = TopicPartition(name, 0)

    async def main() -> None:
        with suppress(ZeroDivisionError):
            async with Producer(bootstrap_servers=bootstrap, linger_ms=5_000, acks=acks) as producer:
                for _ in range(100):
                    await producer.send(name, b"x" * 1_000)
                raise ZeroDivisionError
        async with Consumer(bootstrap_servers=bootstrap) as consumer:
            with anyio.fail_after(10):
                while (await consumer.end_offsets(where))[where] < 100:
                    await anyio.sleep(0.05)

    anyio.run(main, backend=loop)


@both_loops
def test_a_send_cancelled_at_once_accepts_and_sends_no_record(
    bootstrap: str, topic: MakeTopic, loop: str
) -> None:
    name = topic(1)

    async def main() -> tuple[list[int], list[int]]:
        sent = [0]
        async with Producer(bootstrap_servers=bootstrap, batch_size=1, batch_max_size=1) as producer:
            await (await producer.send(name, value=b"0"))  # From now on the topic is known.
            for number in range(1, 200):
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await producer.send(name, value=b"%d" % number)
                    sent.append(number)
                if number % 2:
                    await producer.flush()
        async with Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=1
        ) as consumer:
            consumer.assign(TopicPartition(name, 0))
            assert len(sent) > 10
            return sent, await read(consumer, len(sent))

    async def read(consumer: Consumer, count: int) -> list[int]:
        seen: list[int] = []
        while len(seen) < count:
            with anyio.CancelScope() as scope:
                scope.cancel()
                seen.append(int((await anext(consumer)).value or b""))
            await anyio.sleep(0.005)  # More than one answer comes.
        return seen

    async def limited() -> tuple[list[int], list[int]]:
        with anyio.fail_after(60):
            return await main()

    sent, seen = anyio.run(limited, backend=loop)
    assert seen == sent
