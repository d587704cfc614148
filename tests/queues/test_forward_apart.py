"""A route whose service is slow or away: the others go on, and its records wait in a topic of its own."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest
import trio

from kohort.client import ConsumerRecord
from kohort.client.aio import Admin, Producer
from kohort.client.config import ConsumerOptions
from kohort.queues.forward import Action, Condition, Destination, Forwarder, Route, Verdict
from tests.queues.test_forward import wait_for
from tests.queues.test_kmq import read_all

RECORDS, WINDOW_MAX = 400, 20


@pytest.fixture(name="options")
def few_at_a_time(options: ConsumerOptions) -> ConsumerOptions:
    """A poll's records are fewer than a window's."""
    return {**options, "max_poll_records": WINDOW_MAX // 2}


class Service:
    """Notes each record; lets it wait for its gate."""

    def __init__(self) -> None:
        self.times: Counter[bytes] = Counter()
        self.gate = trio.Event()

    async def push(self, record: ConsumerRecord[bytes, bytes], attempt: int) -> Verdict:
        self.times[record.value or b""] += 1
        await self.gate.wait()
        return Verdict(Action.DONE)


def routed(topic: str, *names: str, **settings: object) -> Destination:
    routes = tuple(
        Route(name=each, when=(Condition(header=each),), url="http://127.0.0.1/") for each in names
    )
    name = f"d-{uuid.uuid4().hex[:6]}"
    given: dict[str, object] = {"url": "http://127.0.0.1/", "window_max": WINDOW_MAX, **settings}
    return Destination(name=name, topic=topic, route=routes, **given)  # type: ignore[arg-type]


async def send(topic: str, options: ConsumerOptions, *, slow_every: int = 2) -> None:
    async with Producer(bootstrap_servers=options["bootstrap_servers"]) as producer:
        for number in range(RECORDS):
            headers = [("slow", b"")] if number % slow_every == 0 else []
            await producer.send(topic, b"%d" % number, partition=number % 3 % 2, headers=headers)


async def test_a_route_that_hangs_holds_no_record_of_another_one_up(
    topic: str, options: ConsumerOptions
) -> None:
    destination = routed(topic, "slow", concurrency_max=4)
    fast, slow = Service(), Service()
    fast.gate.set()
    await send(topic, options)
    async with trio.open_nursery() as nursery:
        forwarder = Forwarder(destination, fast, routed={"slow": slow}, **options)
        nursery.start_soon(forwarder.run)
        await wait_for(lambda: len(fast.times) == RECORDS // 2)
        assert len(slow.times) < RECORDS // 4, "most of its records wait"
        slow.gate.set()
        await wait_for(lambda: len(slow.times) == RECORDS // 2)
        await wait_for(lambda: forwarder.status()["uncommitted"] == 0)
        forwarder.stop()
    assert forwarder.counts["apart"]
    assert not forwarder.counts["dead"]
    assert set(fast.times.values()) == {1}
    copies = await read_all(destination.route_topics["slow"], options)
    assert all(each.header("slow") == b"" for each in copies)


async def test_what_waits_for_a_route_that_the_rules_have_lost_goes_where_they_say(
    topic: str, options: ConsumerOptions
) -> None:
    before = routed(topic, "slow", concurrency_max=4)
    fast, slow = Service(), Service()
    fast.gate.set()
    await send(topic, options)
    async with trio.open_nursery() as nursery:
        forwarder = Forwarder(before, fast, routed={"slow": slow}, **options)
        nursery.start_soon(forwarder.run)
        await wait_for(lambda: forwarder.counts["apart"] > RECORDS // 4)
        await wait_for(lambda: len(fast.times) == RECORDS // 2)
        nursery.cancel_scope.cancel()
    after = Destination(name=before.name, topic=topic, url=before.url)
    async with trio.open_nursery() as nursery:
        forwarder = Forwarder(after, fast, **options)
        nursery.start_soon(forwarder.run)
        await wait_for(lambda: len(fast.times) == RECORDS)
        await wait_for(lambda: forwarder.status()["uncommitted"] == 0)
        forwarder.stop()


async def test_an_order_is_kept_where_a_route_is_slow(topic: str, options: ConsumerOptions) -> None:
    destination = Destination(
        name=f"d-{uuid.uuid4().hex[:6]}",
        topic=topic,
        url="http://127.0.0.1/",
        order="partition",  # type: ignore[arg-type]
        route=routed(topic, "slow").route,
    )
    assert destination.route_topics == {}
    forwarder = Forwarder(destination, Service(), routed={"slow": Service()}, **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forwarder.run)
        await wait_for(lambda: forwarder.is_ready)
        forwarder.stop()
    async with Admin(bootstrap_servers=options["bootstrap_servers"]) as admin:
        there = await admin.list_topics()
    assert not [each for each in there if each.startswith(f"{destination.group_id}__route")]
