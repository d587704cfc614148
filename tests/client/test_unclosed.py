"""Clients that nobody holds and nobody has closed: they warn, leave their group, and are gone."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from kohort.client import (
    LATEST,
    Admin,
    ClusterConnection,
    Consumer,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    ShareConsumer,
    TopicPartition,
    aio,
)
from tests.client.steps import MakeTopic, produce
from tests.client.thread_ends import client_threads, wait_for_ends
from tests.interop.waiting import wait_until


def drop(made: list[object]) -> None:
    """Let go of what was made, which is to warn of it; a warning holds its client until it is forgotten."""
    names = [type(each).__name__ for each in made]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()  # What other tests have left.
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        made.clear()
        gc.collect()
    ours = [each for each in warned if type(each.source).__module__.startswith("kohort.client")]
    texts = [str(each.message) for each in ours]
    assert sorted(each.partition("<")[2].removeprefix("aio.").split()[0] for each in texts) == sorted(names)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


MAKERS: dict[str, Callable[[str, str], object]] = {
    "consumer": lambda bootstrap, group: Consumer("t", bootstrap_servers=bootstrap, group_id=group),
    "share consumer": lambda bootstrap, group: ShareConsumer(
        "t", bootstrap_servers=bootstrap, group_id=group
    ),
    "producer": lambda bootstrap, group: Producer(bootstrap_servers=bootstrap),
    "admin": lambda bootstrap, group: Admin(bootstrap_servers=bootstrap),
    "connection": lambda bootstrap, group: ClusterConnection(bootstrap_servers=bootstrap),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_forgotten_client_warns_and_ends_its_thread(bootstrap: str, group: str, kind: str) -> None:
    before = client_threads()
    drop([MAKERS[kind](bootstrap, f"{group}-{kind[0]}")])
    wait_for_ends(before)


def test_a_thread_that_does_not_end_is_shown_with_its_tasks() -> None:
    before, may_end = client_threads(), threading.Event()

    async def wait_for_nothing() -> None:
        while not may_end.is_set():
            await asyncio.sleep(0.01)

    stuck = threading.Thread(target=lambda: asyncio.run(wait_for_nothing()), name="kohort-stuck")
    stuck.start()
    try:
        with pytest.raises(AssertionError) as caught:
            wait_for_ends(before, within_s=0.2)
    finally:
        may_end.set()
        stuck.join()
    notes = "\n".join(caught.value.__notes__)
    assert "thread kohort-stuck" in notes
    assert "in wait_for_nothing" in notes


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors as Linux shows them")
def test_many_leave_neither_threads_nor_descriptors(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name = topic(1)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.list_topics()
        threads, opened = client_threads(), descriptors()
        for _ in range(3):
            made: list[object] = []
            for number in range(5):
                producer = Producer(bootstrap_servers=bootstrap)
                producer.send(name, b"x").result(20)
                consumer: Consumer = Consumer(bootstrap_servers=bootstrap, group_id=f"{group}-{number}")
                consumer.partitions_for(name)
                made += [producer, consumer]
            del producer, consumer
            drop(made)
        wait_until(lambda: client_threads() <= threads and descriptors() <= opened + 1, "their end")


def test_a_forgotten_consumer_leaves_its_group_at_once(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name = topic(1)
    produce(bootstrap, name, 10)

    class Told(RebalanceListener):
        """Holds its consumer, as many do."""

        consumer: Consumer

    listener = Told()
    consumer: Consumer = Consumer(
        name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", listener=listener
    )
    listener.consumer = consumer
    assert len(consumer.poll(max_records=4)) == 4
    assert len(consumer.poll(max_records=3)) == 3
    made: list[object] = [consumer]
    del consumer, listener
    drop(made)
    with Admin(bootstrap_servers=bootstrap) as admin:
        wait_until(lambda: not admin.describe_groups(group)[group].members, "the group is left")
        where = TopicPartition(name, 0)
        found = admin.list_group_offsets(group)[where]
        assert found == OffsetAndMetadata(4), "what it had in hand counts as not handled"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_records_of_a_forgotten_producer_are_written(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)
    before = client_threads()
    assert Producer(bootstrap_servers=bootstrap).send(name, b"a").result(20).offset == 0
    for _ in range(10):
        Producer(bootstrap_servers=bootstrap, linger_ms=5_000).send(name, b"b")
    gc.collect()
    wait_for_ends(before)
    where = TopicPartition(name, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.list_offsets({where: LATEST})[where].offset == 11


def test_a_client_keeps_its_connection_alive(bootstrap: str, topic: MakeTopic) -> None:
    name, before = topic(1), client_threads()
    producer = Producer(cluster=ClusterConnection(bootstrap_servers=bootstrap))
    gc.collect()
    assert producer.send(name, b"a").result(20).offset == 0
    made: list[object] = [producer]
    shared: list[object] = [producer._shared]
    del producer
    drop(made)
    drop(shared)
    wait_for_ends(before)


def test_a_client_that_is_collected_in_a_thread_of_its_own_kind_ends(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name, before = topic(1), client_threads()
    made: list[object] = [Consumer(bootstrap_servers=bootstrap, group_id=group)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(name, b"x", on_delivery=lambda _: drop(made)).result(20)
        wait_until(lambda: not made, "the callback")
    wait_for_ends(before)


def test_a_closed_client_warns_of_nothing(
    bootstrap: str, group: str, recwarn: pytest.WarningsRecorder
) -> None:
    for make in MAKERS.values():
        client = make(bootstrap, group)
        client.close()  # type: ignore[attr-defined]  # Each of them has it.
        del client
    gc.collect()
    ours = [each for each in recwarn if type(each.source).__module__.startswith("kohort.client")]
    assert [str(each.message) for each in ours] == []


def test_a_program_that_drops_its_clients_has_written_and_left(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name = topic(1)
    program = f"""
from kohort.client import Consumer, Producer
def main():
    producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=10_000, request_timeout_ms=5_000)
    producer.send({name!r}, value=b"0")
    options = dict(bootstrap_servers={bootstrap!r}, group_id={group!r}, auto_offset_reset="earliest")
    consumer = Consumer({name!r}, **options)
    while not consumer.assignment():
        consumer.poll(timeout_ms=50)
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    where = TopicPartition(name, 0)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.describe_groups(group)[group].members == ()
        assert admin.list_offsets({where: LATEST})[where].offset == 1


AIO: dict[str, Callable[[str, str], object]] = {
    "consumer": lambda bootstrap, group: aio.Consumer("t", bootstrap_servers=bootstrap, group_id=group),
    "share consumer": lambda bootstrap, group: aio.ShareConsumer(
        "t", bootstrap_servers=bootstrap, group_id=group
    ),
    "producer": lambda bootstrap, group: aio.Producer(bootstrap_servers=bootstrap),
    "admin": lambda bootstrap, group: aio.Admin(bootstrap_servers=bootstrap),
    "connection": lambda bootstrap, group: aio.ClusterConnection(bootstrap_servers=bootstrap),
}


@pytest.mark.parametrize("how", ["__aenter__", "start"])
@pytest.mark.parametrize("kind", AIO)
def test_a_forgotten_asynchronous_client_warns_and_ends_its_tasks(
    bootstrap: str, group: str, kind: str, how: str
) -> None:
    async def open_and_drop() -> None:
        client = AIO[kind](bootstrap, f"{group}-{kind[0]}")
        await getattr(client, how)()  # And nothing leaves it.
        await anyio.sleep(0.1)
        made: list[object] = [client]
        del client
        drop(made)

    async def main() -> None:
        before = len(asyncio.all_tasks())
        task = asyncio.create_task(open_and_drop())
        await task
        with anyio.fail_after(10):
            while len(asyncio.all_tasks()) > before:
                await anyio.sleep(0.01)

    asyncio.run(main())


@pytest.mark.parametrize("loop, how", [("asyncio", "__aenter__"), ("asyncio", "start"), ("trio", "start")])
def test_a_forgotten_asynchronous_consumer_leaves_its_group(
    bootstrap: str, topic: MakeTopic, group: str, loop: str, how: str
) -> None:
    name = topic(1)

    async def open_and_drop() -> None:
        consumer: aio.Consumer = aio.Consumer(name, bootstrap_servers=bootstrap, group_id=group)
        await getattr(consumer, how)()
        while not consumer.assignment():
            await consumer.poll(timeout_ms=50)
        made: list[object] = [consumer]
        del consumer
        drop(made)

    async def main() -> None:
        if loop == "asyncio":
            await asyncio.create_task(open_and_drop())
        else:
            await open_and_drop()
        async with aio.Admin(bootstrap_servers=bootstrap) as admin:
            with anyio.fail_after(10):
                while (await admin.describe_groups(group))[group].members:
                    await anyio.sleep(0.05)

    anyio.run(main, backend=loop)


def test_records_of_a_forgotten_started_producer_are_written(bootstrap: str, topic: MakeTopic) -> None:
    name = topic(1)

    async def main() -> None:
        producer: aio.Producer = aio.Producer(bootstrap_servers=bootstrap, linger_ms=5_000)
        await producer.start()
        await producer.send(name, b"a")
        made: list[object] = [producer]
        del producer
        drop(made)
        where = TopicPartition(name, 0)
        async with aio.Admin(bootstrap_servers=bootstrap) as admin:
            with anyio.fail_after(10):
                while (await admin.list_offsets({where: LATEST}))[where].offset < 1:
                    await anyio.sleep(0.05)

    anyio.run(main)


def test_an_asynchronous_client_that_outlives_its_loop_only_warns(bootstrap: str, group: str) -> None:
    made: list[object] = []

    async def open_it() -> None:
        consumer: aio.Consumer = aio.Consumer("t", bootstrap_servers=bootstrap, group_id=group)
        await consumer.__aenter__()
        made.append(consumer)

    async def main() -> None:
        await asyncio.create_task(open_it())

    asyncio.run(main())
    drop(made)


def test_a_fork_warns_of_no_client_of_its_parent(bootstrap: str) -> None:
    made: list[object] = [Producer(bootstrap_servers=bootstrap)]
    child = os.fork()
    if not child:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            made.clear()
            gc.collect()
        os._exit(len(warned))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    drop(made)
