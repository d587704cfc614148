"""One queue with SoftwareMill's own KMQ: its client beside our tracker, and its tracker beside our client."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import pytest
import trio

from kohort.client import Producer
from kohort.client.config import ConsumerOptions
from kohort.queues.kmq import Queue, QueueClient, RedeliveryTracker, ensure_topics, queue_stats
from tests.interop.kafka_tools import MissingTool, java_command
from tests.interop.waiting import wait_until
from tests.queues.test_kmq import read_all
from tests.repetitions import only_by_night

pytestmark = only_by_night
VALUES = ("plain 0", "plain 1", "once 2", "never 3", "once 4", "never 5")
WANTED = {value: {"plain": [0], "once": [0, 1], "never": [0, 1, 2, 3]}[value.split()[0]] for value in VALUES}
WITHIN_S = 60.0


class Original:
    """A process of the original's."""

    def __init__(self, role: str, bootstrap: str, queue: Queue) -> None:
        arguments = (bootstrap, queue.topic, str(queue.message_timeout_ms))
        self.given: defaultdict[str, list[int]] = defaultdict(list)
        self._process = subprocess.Popen(
            java_command("kmq", "Kmq", role, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("given "):
                _, _, _, redeliveries, value = line.rstrip("\n").split(" ", 4)
                self.given[value].append(int(redeliveries))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def original(bootstrap: str, queue: Queue) -> Iterator[Callable[[str], Original]]:
    """Start the original's client or tracker."""
    started = []

    def start(role: str) -> Original:
        try:
            started.append(Original(role, bootstrap, queue))
        except MissingTool as missing:
            pytest.skip(str(missing))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def send(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(VALUES):
            producer.send(topic, value.encode(), partition=number % 2)


async def the_dead(queue: Queue, options: ConsumerOptions) -> list[bytes]:
    return sorted(each.value or b"" for each in await read_all(queue.dead_letters_topic, options))


async def test_its_client_beside_our_tracker(
    original: Callable[[str], Original], bootstrap: str, queue: Queue, options: ConsumerOptions
) -> None:
    await ensure_topics(queue, bootstrap_servers=bootstrap)
    await trio.to_thread.run_sync(send, bootstrap, queue.topic)
    client = await trio.to_thread.run_sync(original, "client")
    async with trio.open_nursery() as nursery:
        tracker = RedeliveryTracker(queue, **options)
        nursery.start_soon(tracker.run)
        await trio.to_thread.run_sync(
            lambda: wait_until(lambda: client.given == WANTED, "all came", WITHIN_S)
        )
        with trio.fail_after(WITHIN_S):
            while (await queue_stats(queue, **options)).total.open:
                await trio.sleep(0.2)
        tracker.stop()
    assert await the_dead(queue, options) == [b"never 3", b"never 5"]
    assert client.given == WANTED


async def test_our_client_beside_its_tracker(
    original: Callable[[str], Original], bootstrap: str, queue: Queue, options: ConsumerOptions
) -> None:
    """Version 0.2 counts no redeliveries, and has no limit: what is never ended comes until we reject it."""
    await ensure_topics(queue, bootstrap_servers=bootstrap)
    await trio.to_thread.run_sync(send, bootstrap, queue.topic)
    await trio.to_thread.run_sync(original, "tracker")
    times: Counter[str] = Counter()
    wanted = {value: len(counts) for value, counts in WANTED.items()}
    with trio.fail_after(WITHIN_S):
        async with QueueClient(queue, **options) as client:
            while times != wanted:
                for record in await client.next_batch(timeout_ms=500):
                    value = (record.value or b"").decode()
                    times[value] += 1
                    if value.startswith("never"):
                        if times[value] == 4:
                            await client.reject(record, "it was never ended")
                    elif times[value] == wanted[value]:
                        await client.processed(record)
        while (await queue_stats(queue, **options)).total.open:
            await trio.sleep(0.2)
    assert await the_dead(queue, options) == [b"never 3", b"never 5"]
    assert times == wanted
