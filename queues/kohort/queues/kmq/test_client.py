"""A client whose commits hang: what it was not handed out does not pile up."""

from collections.abc import Callable
from dataclasses import dataclass, field
from unittest.mock import Mock

import anyio
import anyio.lowlevel
import pytest
import trio
import trio.testing

from kohort.client.consumer_records import ConsumerRecords
from kohort.client.errors import ClosedError, KohortError, NetworkError
from kohort.client.values import ConsumerRecord
from kohort.queues.kmq.client import QueueClient
from kohort.queues.kmq.ends import EndMarkers, EndRun
from kohort.queues.kmq.markers import END, KEY_SIZE, Start, pack_keys
from kohort.queues.kmq.queue import Queue


class HangingGroup:
    """A consumer whose coordinator is away: it can read, and commit nothing until `is_back`."""

    def __init__(self, *, is_back: bool = False) -> None:
        self.read = 0
        self.is_back = is_back
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


@dataclass
class Written:
    """A producer, and which keys and values came to it."""

    runs: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    fails: bool = False
    has_no_room: bool = False
    answers: bool = True

    async def send_keys(
        self, producer: object, topic: str, partition: int, keys: bytes, value: bytes, *, key_size: int
    ) -> "Written":
        await anyio.lowlevel.checkpoint()
        if self.has_no_room:
            await trio.sleep_forever()
        if self.fails:
            raise NetworkError("away")
        assert key_size == KEY_SIZE
        self.runs.append((partition, keys, value))
        return self

    async def wait(self) -> None:
        await anyio.lowlevel.checkpoint()

    def when_done(self, callback: Callable[[KohortError | None], None]) -> None:
        if self.answers:
            callback(None)


def add(ends: EndMarkers, partition: int, *offsets: int) -> EndRun:
    run = ends.collected.get(partition) or ends.begin(partition)
    run.offsets.extend(offsets)
    return run


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    found = Written()
    monkeypatch.setattr("kohort.queues.kmq.client.send_keys", found.send_keys)
    monkeypatch.setattr("kohort.queues.kmq.ends.send_keys", found.send_keys)
    return found


async def test_end_markers_of_one_moment_are_one_run_of_each_partition(written: Written) -> None:
    ends = EndMarkers(Mock(), "markers")
    await ends.start()
    await ends.send()  # With nothing: what comes later is sent all the same.
    first = [add(ends, 0, offset) for offset in (3, 5, 4)]
    await add(ends, 1, 9)
    await first[0]
    await first[2]
    assert first[0] is first[2]
    assert written.runs == [(0, pack_keys(0, [3, 5, 4]), END), (1, pack_keys(1, [9]), END)]
    add(ends, 2, 1)
    await ends.end(is_waiting=True)
    assert written.runs[-1] == (2, pack_keys(2, [1]), END)


async def test_an_end_marker_that_is_not_kept_is_told_to_who_waits(written: Written) -> None:
    ends, written.fails = EndMarkers(Mock(), "markers"), True
    await ends.start()
    with pytest.raises(NetworkError):
        await add(ends, 0, 3)
    written.fails = False
    await add(ends, 0, 4)
    await ends.end(is_waiting=True)


async def test_who_waits_for_an_end_marker_is_woken_when_the_client_ends(
    written: Written, autojump_clock: object
) -> None:
    written.answers = False
    ends, told = EndMarkers(Mock(), "markers"), []

    async def wait_for(run: EndRun) -> None:
        try:
            await run
        except ClosedError as error:
            told.append(str(error))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await ends.start()
            nursery.start_soon(wait_for, add(ends, 0, 3))
            await ends.send()
            nursery.start_soon(wait_for, add(ends, 0, 4))
            nursery.start_soon(ends.flush)
            await trio.testing.wait_all_tasks_blocked()
            await ends.end(is_waiting=False)
    assert len(told) == 2
    with pytest.raises(ClosedError):
        add(ends, 0, 5)


async def test_end_markers_that_somebody_waits_for_do_not_wait_for_more(
    written: Written, autojump_clock: object
) -> None:
    ends = EndMarkers(Mock(), "markers")
    await ends.start()
    began = trio.current_time()
    await add(ends, 0, *range(2_000))
    assert trio.current_time() == began
    await ends.end(is_waiting=False)


async def test_end_markers_that_nobody_waits_for_are_sent_soon(
    written: Written, autojump_clock: object
) -> None:
    ends = EndMarkers(Mock(), "markers")
    await ends.start()
    for offset in (3, 4):
        add(ends, 0, offset)
        with trio.fail_after(60):
            await ends._settled.wait()
    assert written.runs == [(0, pack_keys(0, [each]), END) for each in (3, 4)]
    await ends.end(is_waiting=False)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_end_markers_are_sent_under_both_loops(written: Written, backend: str) -> None:
    async def main() -> None:
        ends = EndMarkers(Mock(), "markers")
        await ends.start()
        with anyio.fail_after(60):
            for offset in (3, 4):
                add(ends, 0, offset)
                await ends._settled.wait()
            await add(ends, 0, 5)
        await ends.end(is_waiting=True)

    anyio.run(main, backend=backend)
    assert written.runs == [(0, pack_keys(0, [each]), END) for each in (3, 4, 5)]


async def test_end_markers_of_a_cancelled_batch_are_sent_all_the_same(
    written: Written, autojump_clock: object
) -> None:
    client, written.has_no_room = QueueClient(Queue("t")), True
    client._consumer = HangingGroup(is_back=True)  # type: ignore[assignment]  # It has what is called.
    client._ends = ends = EndMarkers(client._producer, "markers")
    runs = [add(ends, partition, 3) for partition in (0, 1)]
    with trio.move_on_after(1):
        await client.next_batch(timeout_ms=60_000)
    assert written.runs == []
    written.has_no_room = False
    with trio.fail_after(60):
        await ends.flush()
        for each in runs:
            await each
        (record,) = await client.next_batch(timeout_ms=60_000)
    assert record.offset == 1
    start = Start(client.queue.message_timeout_ms).encode()
    assert sorted(written.runs) == [
        (0, pack_keys(0, [1]), start),
        (0, pack_keys(0, [3]), END),
        (1, pack_keys(1, [3]), END),
    ]


async def test_while_nothing_can_be_committed_nothing_more_is_read(
    autojump_clock: object, written: Written
) -> None:
    client, group = QueueClient(Queue("t")), HangingGroup()
    client._consumer = group  # type: ignore[assignment]
    client._ends = EndMarkers(client._producer, "markers")
    assert await client.next_batch(timeout_ms=300) == []  # Of real time: many tries.
    assert group.read == 1
    group.is_back = True
    (record,) = await client.next_batch(timeout_ms=60_000)
    assert record.offset == 1
