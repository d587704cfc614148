"""Workers of one destination share its partitions by what these bring."""

from __future__ import annotations

import uuid

import pytest
import trio

from kohort.client import ConsumerRecord, NewTopic
from kohort.client.aio import Admin, Producer
from kohort.client.config import ConsumerOptions
from kohort.queues.forward import Action, Destination, Forwarder, Verdict, measured
from tests.queues.test_forward import wait_for

HEAVY = (0, 1)
PARTITIONS = 4


class Done:
    """A service that takes everything at once."""

    async def push(self, record: ConsumerRecord[bytes, bytes], attempt: int) -> Verdict:
        await trio.lowlevel.checkpoint()
        return Verdict(Action.DONE)


def heavy_of(forwarder: Forwarder) -> int:
    """Return how many of the heavy partitions a worker has."""
    topic = forwarder.destination.topic
    owned = [each for each in forwarder._consumer.assignment() if each.topic == topic]
    return sum(each.partition in HEAVY for each in owned)


async def test_two_heavy_partitions_do_not_stay_with_one_worker(
    bootstrap: str, options: ConsumerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "SAMPLE_MS", 200)
    monkeypatch.setattr(measured, "BYTES_MIN", 100.0)
    name = f"heavy-{uuid.uuid4().hex[:6]}"
    destination = Destination(name=name, topic=name, url="http://127.0.0.1/", share_every_ms=1_000)
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics(NewTopic(name, partitions=PARTITIONS))

    async def send() -> None:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            while True:
                for partition in HEAVY:
                    await producer.send(name, bytes(5_000), partition=partition)
                await trio.sleep(0.02)

    workers = [Forwarder(destination, Done(), **options) for _ in range(2)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(workers[0].run)
        await wait_for(lambda: heavy_of(workers[0]) == 2)
        nursery.start_soon(workers[1].run)
        nursery.start_soon(send)
        await wait_for(lambda: [heavy_of(each) for each in workers] == [1, 1])
        await wait_for(lambda: all(each.counts["done"] for each in workers))
        nursery.cancel_scope.cancel()
