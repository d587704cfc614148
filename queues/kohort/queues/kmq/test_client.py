"""A client whose commits hang: what it was not handed out does not pile up."""

from typing import Any

import trio

from kohort.client.consumer_records import ConsumerRecords
from kohort.client.values import ConsumerRecord
from kohort.queues.kmq.client import QueueClient
from kohort.queues.kmq.queue import Queue


class HangingGroup:
    """A consumer whose coordinator is away: it can read, and commit nothing until `is_back`."""

    def __init__(self) -> None:
        self.read = 0
        self.is_back = False
        self._is_paused = False

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False

    async def poll(
        self, *, timeout_ms: float, max_records: int | None = None
    ) -> ConsumerRecords[bytes, bytes]:
        await trio.sleep(0.001)
        if self._is_paused:
            return ConsumerRecords()
        self.read += 1
        return ConsumerRecords([ConsumerRecord("t", 0, self.read, 0, None, b"")])

    async def commit(self, records: object) -> None:
        if not self.is_back:
            await trio.sleep_forever()


class Writes:
    """A producer whose records are kept at once."""

    async def send(self, *arguments: object, **more: object) -> Any:
        async def kept() -> None:
            return None

        return kept()


async def test_while_nothing_can_be_committed_nothing_more_is_read(autojump_clock: object) -> None:
    client, group = QueueClient(Queue("t")), HangingGroup()
    client._consumer, client._producer = group, Writes()  # type: ignore[assignment]
    assert await client.next_batch(timeout_ms=60_000) == []
    assert group.read == 1
    group.is_back = True
    (record,) = await client.next_batch(timeout_ms=60_000)
    assert record.offset == 1
