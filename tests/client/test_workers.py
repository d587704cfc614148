"""Pools of workers against a broker process: threads, and tasks under both event loops."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Literal, Unpack

import anyio
import pytest

from kohort.client import (
    Admin,
    ConfigurationError,
    Consumer,
    ConsumerRecord,
    NewTopic,
    Producer,
    TopicPartition,
)
from kohort.client.config import ConsumerOptions
from kohort.client.workers import AsyncWorkerPool, HandlerError, Order, WorkerPool
from tests.interop.waiting import wait_until

MakeTopic = Callable[[int], str]
RECORDS = 600
KEYS = 7


def produce(bootstrap: str, topic: str, count: int = RECORDS) -> None:
    """Send numbers, each with one of a few keys."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(count):
            producer.send(topic, value=b"%d" % number, key=b"%d" % (number % KEYS))


class Handled:
    """What the workers did, in the order in which they were done with it."""

    def __init__(self, *, slow_s: float = 0.0) -> None:
        self.numbers: list[int] = []
        self._slow_s = slow_s
        self._random = Random(7)
        self._lock = threading.Lock()

    def __call__(self, record: ConsumerRecord) -> None:
        time.sleep(self._random.random() * self._slow_s)
        with self._lock:
            self.numbers.append(int(record.value or b"-1"))

    def by_key(self) -> dict[int, list[int]]:
        """Return the numbers of each key."""
        found: dict[int, list[int]] = defaultdict(list)
        for number in self.numbers:
            found[number % KEYS].append(number)
        return found


@contextmanager
def running(pool: WorkerPool) -> Iterator[threading.Thread]:
    """Run a pool in a thread until the block ends."""
    thread = threading.Thread(target=pool.run)
    thread.start()
    try:
        yield thread
    finally:
        pool.stop()
        thread.join(30)
        assert not thread.is_alive()


class PoolOptions(ConsumerOptions, total=False):
    """What both kinds of pools take besides topic and handler."""

    workers: int
    order: Order
    window_max: int
    drain_timeout_ms: float


def pool_options(bootstrap: str, group: str, options: PoolOptions) -> PoolOptions:
    """Return what a test asks for; a pool reads all, commits soon and keeps few records otherwise."""
    return {
        "group_id": group,
        "bootstrap_servers": bootstrap,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 100,
        "window_max": 50,
        **options,
    }


def make(
    bootstrap: str,
    topic: str,
    group: str,
    handler: Callable[[ConsumerRecord], object],
    on_error: Callable[[ConsumerRecord, Exception], object] | None = None,
    **options: Unpack[PoolOptions],
) -> WorkerPool:
    return WorkerPool(topic, handler=handler, on_error=on_error, **pool_options(bootstrap, group, options))


def make_async(
    bootstrap: str,
    topic: str,
    group: str,
    handler: Callable[[ConsumerRecord], Awaitable[object]],
    **options: Unpack[PoolOptions],
) -> AsyncWorkerPool:
    return AsyncWorkerPool(topic, handler=handler, **pool_options(bootstrap, group, options))


def committed(bootstrap: str, topic: str, group: str, partitions: int) -> int:
    """Return how many records of a topic without gaps lie before the group's commits."""
    with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        found = consumer.committed(*(TopicPartition(topic, each) for each in range(partitions)))
    return sum(each.offset for each in found.values() if each is not None)


def test_every_record_is_handled_once_in_the_order_of_its_key_and_committed(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name, handled = topic(3), Handled(slow_s=0.002)
    produce(bootstrap, name)
    with running(make(bootstrap, name, group, handled)):
        wait_until(lambda: len(handled.numbers) == RECORDS, "all records are handled")
    assert Counter(handled.numbers) == Counter(range(RECORDS))
    assert all(numbers == sorted(numbers) for numbers in handled.by_key().values())
    assert committed(bootstrap, name, group, 3) == RECORDS


def test_without_order_a_slow_record_delays_neither_key_nor_partition(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name, handled, release = topic(1), Handled(), threading.Event()
    produce(bootstrap, name, 40)

    def handle(record: ConsumerRecord) -> None:
        if record.offset == 0:
            release.wait(20)
        handled(record)

    with running(make(bootstrap, name, group, handle, order=Order.NONE, auto_commit_interval_ms=10)):
        wait_until(lambda: len(handled.numbers) == 39, "the others overtake the first")
        assert committed(bootstrap, name, group, 1) == 0, "and are not committed before it"
        release.set()
    assert committed(bootstrap, name, group, 1) == 40


def test_a_partition_is_paused_while_too_many_records_wait(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name, handled, release = topic(1), Handled(), threading.Event()
    produce(bootstrap, name)

    def handle(record: ConsumerRecord) -> None:
        release.wait(20)
        handled(record)

    pool = make(
        bootstrap, name, group, handle, order=Order.NONE, workers=2, window_max=20, max_poll_records=10
    )
    with running(pool):
        wait_until(lambda: pool.paused, "the pool pauses the partition")
        assert pool.waiting <= 20 + 10
        release.set()
        wait_until(lambda: len(handled.numbers) == RECORDS, "all records are handled")
        wait_until(lambda: not pool.paused, "it is read on")


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_pools_hand_partitions_over_without_handling_a_record_twice(
    bootstrap: str, topic: MakeTopic, group: str, strategy: str
) -> None:
    name, handled = topic(4), Handled(slow_s=0.01)
    produce(bootstrap, name)
    options: PoolOptions = {"partition_assignment_strategy": strategy}
    with running(make(bootstrap, name, group, handled, **options)):
        wait_until(lambda: len(handled.numbers) > 20, "the first is at work")
        with running(make(bootstrap, name, group, handled, **options)):
            wait_until(lambda: len(handled.numbers) > 300, "both are at work")
        wait_until(lambda: len(handled.numbers) >= RECORDS, "all records are handled")
    assert Counter(handled.numbers) == Counter(range(RECORDS))
    assert all(numbers == sorted(numbers) for numbers in handled.by_key().values())


def test_a_stopped_pool_has_committed_finished_work(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name, handled = topic(3), Handled(slow_s=0.005)
    produce(bootstrap, name)
    with running(make(bootstrap, name, group, handled)):
        wait_until(lambda: len(handled.numbers) > 50, "it is at work")
    assert committed(bootstrap, name, group, 3) == len(handled.numbers) < RECORDS
    with running(make(bootstrap, name, group, handled)):
        wait_until(lambda: len(handled.numbers) >= RECORDS, "all records are handled")
    assert Counter(handled.numbers) == Counter(range(RECORDS))


def test_a_handler_that_fails_stops_the_pool_before_its_record(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name, handled = topic(1), Handled()
    produce(bootstrap, name)

    def handle(record: ConsumerRecord) -> None:
        if record.offset == 200:
            raise ZeroDivisionError
        handled(record)

    with pytest.raises(HandlerError, match="at 200: ZeroDivisionError") as raised:
        make(bootstrap, name, group, handle, order=Order.PARTITION).run()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert raised.value.record.offset == 200
    assert committed(bootstrap, name, group, 1) == 200


def test_an_error_callback_handles_failed_records(bootstrap: str, topic: MakeTopic, group: str) -> None:
    name, handled = topic(2), Handled()
    produce(bootstrap, name)
    failed: list[int] = []

    def handle(record: ConsumerRecord) -> None:
        number = int(record.value or b"-1")
        if number % 100 == 0:
            raise ValueError(number)
        handled(record)

    def take_over(record: ConsumerRecord, error: Exception) -> None:
        failed.append(error.args[0])

    with running(make(bootstrap, name, group, handle, on_error=take_over)):
        wait_until(lambda: len(handled.numbers) + len(failed) == RECORDS, "all records are dealt with")
    assert sorted(failed) == [0, 100, 200, 300, 400, 500]
    assert committed(bootstrap, name, group, 2) == RECORDS


def test_work_that_does_not_end_in_time_is_handled_again_by_the_next_pool(
    bootstrap: str, topic: MakeTopic, group: str
) -> None:
    name, handled, release = topic(1), Handled(), threading.Event()
    produce(bootstrap, name, 10)

    def stuck(record: ConsumerRecord) -> None:
        if record.offset == 4:
            release.wait(20)
        else:
            handled(record)

    with running(make(bootstrap, name, group, stuck, drain_timeout_ms=100, order=Order.PARTITION)):
        wait_until(lambda: len(handled.numbers) == 4, "it comes as far as the record that is stuck")
    assert committed(bootstrap, name, group, 1) == 4
    release.set()
    with running(make(bootstrap, name, group, handled)):
        wait_until(lambda: len(handled.numbers) == 10, "the next goes on there")
    assert sorted(handled.numbers) == list(range(10))


def test_wrong_settings_are_refused_at_once() -> None:
    def handle(record: ConsumerRecord) -> None:
        del record

    with pytest.raises(ConfigurationError, match="needs a group_id"):
        WorkerPool("t", handler=handle)
    with pytest.raises(ConfigurationError, match="workers is 0"):
        WorkerPool("t", handler=handle, group_id="g", workers=0)
    with pytest.raises(ConfigurationError, match="a pool commits"):
        WorkerPool("t", handler=handle, group_id="g", enable_auto_commit=True)


both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])


def run_limited(main: Callable[[], object], loop: str) -> None:
    async def limited() -> None:
        with anyio.fail_after(30):
            await main()  # type: ignore[misc]  # An async function without arguments.

    anyio.run(limited, backend=loop)


@both_loops
def test_tasks_handle_records_as_threads_do(bootstrap: str, topic: MakeTopic, group: str, loop: str) -> None:
    name, handled = topic(3), Handled()
    produce(bootstrap, name)
    at_once = most_at_once = 0

    async def handle(record: ConsumerRecord) -> None:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        await anyio.sleep(0.001)
        at_once -= 1
        handled(record)
        if len(handled.numbers) == RECORDS:
            pool.stop()

    pool = make_async(bootstrap, name, group, handle, workers=5)
    run_limited(pool.run, loop)
    assert Counter(handled.numbers) == Counter(range(RECORDS))
    assert all(numbers == sorted(numbers) for numbers in handled.by_key().values())
    assert most_at_once == 5
    assert committed(bootstrap, name, group, 3) == RECORDS


@both_loops
def test_an_async_handler_that_fails_stops_the_pool(
    bootstrap: str, topic: MakeTopic, group: str, loop: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 100)

    async def handle(record: ConsumerRecord) -> None:
        await anyio.sleep(0.001)
        if record.offset == 50:
            raise ZeroDivisionError

    pool = make_async(bootstrap, name, group, handle, order=Order.PARTITION)
    with pytest.raises(HandlerError, match="at 50"):
        run_limited(pool.run, loop)
    assert committed(bootstrap, name, group, 1) == 50


@both_loops
def test_a_cancelled_pool_commits_finished_work(
    bootstrap: str, topic: MakeTopic, group: str, loop: str
) -> None:
    name = topic(1)
    produce(bootstrap, name, 20)
    reached = anyio.Event

    async def main() -> None:
        stuck = reached()

        async def handle(record: ConsumerRecord) -> None:
            if record.offset == 10:
                stuck.set()
                await anyio.sleep_forever()

        pool = make_async(bootstrap, name, group, handle, order=Order.PARTITION)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pool.run)
            await stuck.wait()
            tasks.cancel_scope.cancel()

    run_limited(main, loop)
    assert committed(bootstrap, name, group, 1) == 10


def make_anew(bootstrap: str, name: str) -> None:
    """Delete the topic and make it again, with one partition and no record."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics(name)
        admin.create_topics(NewTopic(name, partitions=1))


def send_values(bootstrap: str, name: str, *values: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for each in values:
            producer.send(name, value=each.encode())


class Slow:
    """A handler that holds the old records up until they are let go."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.done: list[str] = []
        self.release = threading.Event()

    def __call__(self, record: ConsumerRecord) -> None:
        value = (record.value or b"").decode()
        self.started.append(value)
        if value.startswith("old"):
            self.release.wait(30)
        self.done.append(value)

    async def in_task(self, record: ConsumerRecord) -> None:
        value = (record.value or b"").decode()
        self.started.append(value)
        while value.startswith("old") and not self.release.is_set():
            await anyio.sleep(0.01)
        self.done.append(value)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_offsets_of_a_topic_are_not_committed_for_its_successor(
    bootstrap: str,
    topic: MakeTopic,
    group: str,
    is_async: bool,
    group_protocol: Literal["classic", "consumer"],
) -> None:
    name, slow = topic(1), Slow()
    send_values(bootstrap, name, *(f"old-{each}" for each in range(10)))
    options: PoolOptions = {"workers": 8, "order": Order.NONE, "group_protocol": group_protocol}
    if is_async:
        pool = make_async(bootstrap, name, group, slow.in_task, **options)
        thread = threading.Thread(target=anyio.run, args=(pool.run,))
    else:
        pool = make(bootstrap, name, group, slow, **options)
        thread = threading.Thread(target=pool.run)
    thread.start()
    try:
        wait_until(lambda: len(slow.started) == 8, "the workers are busy with the old topic")
        make_anew(bootstrap, name)
        send_values(bootstrap, name, "new-0", "new-1")
        with Consumer(bootstrap_servers=bootstrap, group_id=group) as reader:
            place = TopicPartition(name, 0)
            wait_until(lambda: pool.waiting == 2, "the new records are there")
            slow.release.set()
            wait_until(lambda: {"new-0", "new-1"} <= set(slow.done), "the new records are handled")

            def offset() -> int:
                found = reader.committed(place)[place]
                return -1 if found is None else found.offset

            wait_until(lambda: offset() == 2, "what was handled is committed")
            assert len([each for each in slow.done if each.startswith("old")]) == 8
    finally:
        slow.release.set()
        pool.stop()
        thread.join(30)
    assert not thread.is_alive()
    assert committed(bootstrap, name, group, 1) == 2
    assert Counter(slow.done)["new-0"] == 1
