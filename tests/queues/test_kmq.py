"""Acknowledgements one by one, on kohort and on Apache Kafka: what comes again, what is dead, where it is."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kohort.client import ConsumerRecord, NewTopic, ResourceType, TopicPartition
from kohort.client.aio import Admin, Consumer, Producer
from kohort.client.config import ConsumerOptions
from kohort.client.errors import BrokerError, ConfigurationError, NoOffsetError
from kohort.queues.kmq import (
    Queue,
    QueueClient,
    QueueWorker,
    RedeliveryTracker,
    Reject,
    Release,
    State,
    ensure_topics,
    locate,
    queue_stats,
    redelivering,
)
from kohort.queues.kmq.copies import redelivery_count
from kohort.queues.kmq.reading import read_offsets

WITHIN_S = 30
LARGEST_BYTES = 1_048_588 - 61 - 11  # What Kafka takes by default, without a batch's head and a record's.


async def produce(queue: Queue, options: ConsumerOptions, count: int) -> None:
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for number in range(count):
            headers = [("trace", b"t%d" % number)]
            await producer.send(queue.topic, b"%d" % number, key=b"k%d" % number, headers=headers)


async def read_all(topic: str, options: ConsumerOptions) -> list[ConsumerRecord]:
    async with Consumer(
        bootstrap_servers=options["bootstrap_servers"], auto_offset_reset="earliest"
    ) as reader:
        partitions = await reader.partitions_for(topic)
        reader.assign(*partitions)
        count = sum((await reader.end_offsets(*partitions)).values())
        found: list[ConsumerRecord] = []
        while len(found) < count:
            found += await reader.poll(timeout_ms=1_000)
        return found


@asynccontextmanager
async def tracking(queue: Queue, options: ConsumerOptions) -> AsyncIterator[RedeliveryTracker]:
    tracker = RedeliveryTracker(queue, **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tracker.run)
        yield tracker
        tracker.stop()


async def take(client: QueueClient, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    with trio.fail_after(WITHIN_S):
        while len(found) < count:
            found += await client.next_batch(timeout_ms=500)
    return found


async def test_what_is_acknowledged_is_done_and_the_rest_comes_again_with_a_count(
    queue: Queue, options: ConsumerOptions
) -> None:
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    await produce(queue, options, 10)
    async with tracking(queue, options) as tracker, QueueClient(queue, **options) as client:
        first = await take(client, 10)
        for record in first:
            if int(record.value or b"") % 2 == 0:
                await (await client.processed(record))
        again: list[ConsumerRecord] = []
        while {int(each.value or b"") for each in again} != {1, 3, 5, 7, 9}:
            for record in await take(client, 1):
                assert redelivery_count(record, queue) >= 1
                assert record.header("trace") == b"t" + (record.value or b"")
                await (await client.processed(record))
                again.append(record)
        by_key = {each.key: each.partition for each in first}
        assert all(by_key[each.key] == each.partition for each in again)
        with trio.fail_after(WITHIN_S):
            while tracker.metrics()["open"]:
                await trio.sleep(0.05)
        told = dict(tracker.metrics())
        assert told.pop("redelivered") == len(again)
        assert told == {
            "partitions": 2,
            "open": 0,
            "overdue": 0,
            "oldest_open_ms": 0,
            "dead": 0,
            "vanished": 0,
        }


async def test_markers_are_kept_longer_than_a_record_may_be_open(
    topic: str, options: ConsumerOptions, caplog: pytest.LogCaptureFixture
) -> None:
    bootstrap = options["bootstrap_servers"]
    for timeout_ms, kept_ms in ((4_000, 86_400_000), (100_000_000, 200_000_000)):
        queue = Queue(topic, markers_topic=f"{topic}__{timeout_ms}", message_timeout_ms=timeout_ms)
        await ensure_topics(queue, bootstrap_servers=bootstrap)
        await ensure_topics(queue, bootstrap_servers=bootstrap)
        assert (await queue_stats(queue, **options)).keeping.retention_ms == kept_ms
    assert "keeps markers for" not in caplog.text
    slower = Queue(topic, markers_topic=f"{topic}__4000", message_timeout_ms=60_000_000)
    await ensure_topics(slower, bootstrap_servers=bootstrap)
    assert "keeps markers for 86400000 ms; set retention.ms to 120000000 or more" in caplog.text


async def test_a_record_that_is_given_more_time_than_markers_are_kept_is_told(
    queue: Queue, options: ConsumerOptions, caplog: pytest.LogCaptureFixture
) -> None:
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    await produce(queue, options, 2)
    async with tracking(queue, options), QueueClient(queue, **options) as client:
        batch = await take(client, 2)
        assert "a record was given" not in caplog.text
        await (await client.extend(batch[0], 50_000_000))
        with trio.fail_after(WITHIN_S):
            while "a record was given 50000000 ms" not in caplog.text:
                await trio.sleep(0.05)
    assert "keeps markers for 86400000 ms; set retention.ms to 100000000 or more" in caplog.text
    found = await queue_stats(queue, **options)
    assert found.longest_ms == 50_000_000
    assert len(found.keeping.faults(queue, found.longest_ms)) == 1
    assert found.keeping.faults(queue, 40_000_000) == []


async def test_a_markers_topic_that_is_compacted_is_told(
    queue: Queue, options: ConsumerOptions, caplog: pytest.LogCaptureFixture
) -> None:
    async with Admin(bootstrap_servers=options["bootstrap_servers"]) as admin:
        configs = {"cleanup.policy": "compact"}
        await admin.create_topics(NewTopic(queue.markers_topic, partitions=2, configs=configs))
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    assert f"{queue.markers_topic} has cleanup.policy compact; set it to delete" in caplog.text
    assert (await queue_stats(queue, **options)).keeping.cleanup_policy == "compact"


async def test_past_its_limit_a_record_is_a_dead_letter(queue: Queue, options: ConsumerOptions) -> None:
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    await produce(queue, options, 3)
    taken: Counter[bytes | None] = Counter()
    async with tracking(queue, options) as tracker, QueueClient(queue, **options) as client:
        with trio.fail_after(WITHIN_S):
            while tracker.metrics()["dead"] < 3:
                for record in await client.next_batch(timeout_ms=200):
                    taken[record.value] += 1
                    await client.release(record)
    assert set(taken.values()) == {4}
    letters = await read_all(queue.dead_letters_topic, options)
    assert sorted(each.value or b"" for each in letters) == [b"0", b"1", b"2"]
    assert {each.header("trace") for each in letters} == {b"t0", b"t1", b"t2"}
    stats = await queue_stats(queue, **options)
    assert (stats.dead_letters, stats.total.counters.redelivered, stats.total.counters.dead) == (3, 9, 3)
    assert (stats.total.unread, stats.total.open) == (0, 0)


async def test_a_record_as_large_as_its_topic_allows_keeps_no_other_waiting(
    queue: Queue, options: ConsumerOptions
) -> None:
    """A copy has headers that the record had not: it is too large, and a dead letter is not."""
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    largest = os.urandom(LARGEST_BYTES)
    async with Producer(
        bootstrap_servers=options["bootstrap_servers"], max_request_size=2_000_000
    ) as producer:
        with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
            await (await producer.send(queue.topic, largest + b"x", partition=0))
        for value in (b"before", largest, b"after"):
            await (await producer.send(queue.topic, value, partition=0))
    async with tracking(queue, options), QueueClient(queue, **options) as client:
        for record in await take(client, 3):
            await client.release(record)
        assert {each.value for each in await take(client, 2)} == {b"before", b"after"}
        with trio.fail_after(WITHIN_S):
            while not (await queue_stats(queue, **options)).dead_letters:
                await trio.sleep(0.1)
    (letter,) = await read_all(queue.dead_letters_topic, options)
    assert letter.value == largest
    assert letter.header("kmq-dead-letter-why") == b"too large to be written again with a count"


async def test_a_record_that_only_fits_compressed_comes_again_or_is_rejected(
    queue: Queue, options: ConsumerOptions
) -> None:
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    large = bytes(3_000_000)
    async with Producer(
        bootstrap_servers=options["bootstrap_servers"], max_request_size=4_000_000, compression_type="gzip"
    ) as producer:
        await (await producer.send(queue.topic, large, partition=0))
    async with tracking(queue, options), QueueClient(queue, **options) as client:
        (first,) = await take(client, 1)
        await client.release(first)
        (second,) = await take(client, 1)
        assert (second.value, redelivery_count(second, queue)) == (large, 1)
        await client.reject(second)
    (letter,) = await read_all(queue.dead_letters_topic, options)
    assert letter.value == large


async def test_what_no_topic_takes_stays_open_until_one_does(queue: Queue, options: ConsumerOptions) -> None:
    bootstrap = options["bootstrap_servers"]
    async with Admin(bootstrap_servers=bootstrap) as admin:
        small = {"max.message.bytes": "1000"}
        await admin.create_topics(NewTopic(queue.dead_letters_topic, partitions=1, configs=small))
        await ensure_topics(queue, bootstrap_servers=bootstrap)
        await admin.alter_configs(ResourceType.TOPIC, queue.topic, values={"max.message.bytes": "5100"})
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await (await producer.send(queue.topic, os.urandom(5_000), partition=0))
            await (await producer.send(queue.topic, b"small", partition=0))
        async with tracking(queue, options), QueueClient(queue, **options) as client:
            for record in await take(client, 2):
                await client.release(record)
            (again,) = await take(client, 1)
            assert again.value == b"small"
            await (await client.processed(again))
            with trio.fail_after(WITHIN_S):
                while (await queue_stats(queue, **options)).total.open > 1:
                    await trio.sleep(0.1)
            assert (await queue_stats(queue, **options)).total.open == 1
            await admin.alter_configs(
                ResourceType.TOPIC, queue.dead_letters_topic, values={"max.message.bytes": "10000"}
            )
            with trio.fail_after(2 * WITHIN_S):
                while (await queue_stats(queue, **options)).total.open:
                    await trio.sleep(0.1)
    (letter,) = await read_all(queue.dead_letters_topic, options)
    assert len(letter.value or b"") == 5_000


async def test_a_rejected_record_goes_to_the_dead_letters_at_once(
    queue: Queue, options: ConsumerOptions
) -> None:
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    await produce(queue, options, 1)
    async with QueueClient(queue, **options) as client:
        (record,) = await take(client, 1)
        await (await client.reject(record, "no such customer"))
    (letter,) = await read_all(queue.dead_letters_topic, options)
    assert (letter.value, letter.header("kmq-dead-letter-why")) == (b"0", b"no such customer")


async def test_more_time_keeps_a_record_from_coming_again(queue: Queue, options: ConsumerOptions) -> None:
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    await produce(queue, options, 1)
    async with tracking(queue, options) as tracker, QueueClient(queue, **options) as client:
        (record,) = await take(client, 1)
        for _ in range(5):
            await trio.sleep(1.2)
            await (await client.extend(record))
            assert await client.next_batch(timeout_ms=1) == []
        await client.processed(record)
        assert tracker.metrics()["redelivered"] == 0


async def test_a_worker_decides_by_what_its_handler_does(queue: Queue, options: ConsumerOptions) -> None:
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    await produce(queue, options, 40)
    seen: Counter[int] = Counter()

    async def handle(record: ConsumerRecord) -> None:
        number = int(record.value or b"")
        seen[number] += 1
        if number == 7:
            raise Reject("seven")
        if number % 10 == 3 and seen[number] == 1:
            raise Release
        if number % 10 == 5 and seen[number] == 1:
            raise ValueError(number)
        await trio.sleep(0.01)

    worker = QueueWorker(queue, handle, workers=5, batch_max=10, **options)
    async with tracking(queue, options) as tracker, trio.open_nursery() as nursery:
        nursery.start_soon(worker.run)
        with trio.fail_after(WITHIN_S):
            while worker.done < 39 or tracker.metrics()["open"]:
                await trio.sleep(0.05)
        worker.stop()
    assert seen == {each: 2 if each % 10 in {3, 5} else 1 for each in range(40)}
    assert (worker.done, worker.rejected, worker.released, worker.failed) == (39, 1, 4, 4)


async def test_where_a_record_is_now(queue: Queue, options: ConsumerOptions) -> None:
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for value in (b"done", b"late", b"dead", b"open", b"unread"):
            await producer.send(queue.topic, value, partition=0)

    async def states(offset: int) -> list[State]:
        return [each.state for each in await locate(queue, 0, offset, **options)]

    async with QueueClient(queue, **options) as client:
        done, late, dead, _ = await take_exactly(client, 4)
        await (await client.processed(done))
        await (await client.reject(dead))
        await (await client.release(late))
        assert [await states(each) for each in range(5)] == [
            [State.DONE],
            [State.OVERDUE],
            [State.DEAD],
            [State.TAKEN],
            [State.UNREAD],
        ]
    async with tracking(queue, options) as tracker:
        with trio.fail_after(WITHIN_S):
            while tracker.metrics()["redelivered"] < 1:
                await trio.sleep(0.05)
    way = await locate(queue, 0, 1, **options)
    assert [(each.offset, each.state, each.redeliveries) for each in way] == [
        (1, State.REDELIVERED, 0),
        (5, State.UNREAD, 1),
    ]
    with pytest.raises(NoOffsetError):
        await locate(queue, 0, 99, **options)


async def take_exactly(client: QueueClient, count: int) -> list[ConsumerRecord]:
    with trio.fail_after(WITHIN_S):
        found: list[ConsumerRecord] = []
        while len(found) < count:
            found += await client.next_batch(timeout_ms=500, max_records=count - len(found))
        return found


async def test_a_tracker_that_takes_over_delivers_nothing_twice(
    queue: Queue, options: ConsumerOptions
) -> None:
    """The copy was written, and its tracker died before the end marker."""
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    await produce(queue, options, 1)
    async with QueueClient(queue, **options) as client:
        (record,) = await take(client, 1)
        await (await client.release(record))
    async with tracking(queue, options) as tracker:
        with trio.fail_after(WITHIN_S):
            while tracker.metrics()["redelivered"] < 1 or tracker.metrics()["open"]:
                await trio.sleep(0.05)
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        markers = await read_all(queue.markers_topic, options)
        await producer.send(
            queue.markers_topic, markers[0].value, key=markers[0].key, partition=record.partition
        )
        await producer.send(
            queue.markers_topic, b"\x01" + bytes(8), key=markers[0].key, partition=record.partition
        )
    async with tracking(queue, options) as second:
        with trio.fail_after(WITHIN_S):
            while (await queue_stats(queue, **options)).total.open:
                await trio.sleep(0.05)
        assert second.metrics()["redelivered"] == 0
    assert len(await read_all(queue.topic, options)) == 2


async def test_a_tracker_that_was_thrown_out_while_it_read_writes_nothing(
    queue: Queue, options: ConsumerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its broker was slow, say; its successor has delivered again what it was about to."""
    is_reading, goes_on = trio.Event(), trio.Event()

    async def read_slowly(*arguments: Any) -> Any:
        found = await read_offsets(*arguments)
        if not is_reading.is_set():
            is_reading.set()
            await goes_on.wait()
        return found

    monkeypatch.setattr(redelivering, "read_offsets", read_slowly)
    await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"])
    await produce(queue, options, 1)
    async with QueueClient(queue, **options) as client:
        (record,) = await take(client, 1)
        await (await client.release(record))
    async with (
        tracking(queue, options) as first,
        Admin(bootstrap_servers=options["bootstrap_servers"]) as admin,
    ):
        with trio.fail_after(WITHIN_S):
            await is_reading.wait()
            await admin.remove_group_members(queue.redelivery_group_id)
        async with tracking(queue, options) as second:
            with trio.fail_after(WITHIN_S):
                while second.metrics()["redelivered"] < 1:
                    await trio.sleep(0.05)
            goes_on.set()
            with trio.fail_after(WITHIN_S):
                while not first.metrics()["partitions"] or (await queue_stats(queue, **options)).total.open:
                    await trio.sleep(0.05)
    assert first.metrics()["redelivered"] == 0
    assert len(await read_all(queue.topic, options)) == 2


async def test_markers_get_as_many_partitions_as_the_topic_has(
    queue: Queue, options: ConsumerOptions
) -> None:
    assert await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"]) == 2
    assert await ensure_topics(queue, bootstrap_servers=options["bootstrap_servers"]) == 2
    async with Consumer(bootstrap_servers=options["bootstrap_servers"]) as reader:
        partitions = await reader.partitions_for(queue.markers_topic)
    assert partitions == tuple(TopicPartition(queue.markers_topic, each) for each in range(2))


def test_what_a_queue_decides_is_not_an_option_of_its_clients(queue: Queue) -> None:
    with pytest.raises(ConfigurationError, match="group_id"):
        QueueClient(queue, group_id="mine")
    with pytest.raises(ConfigurationError, match="message_timeout_ms"):
        Queue("orders", message_timeout_ms=0)
