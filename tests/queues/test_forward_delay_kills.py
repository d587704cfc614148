"""Records that wait for their time while the worker is killed: none is early, none is lost.

KOHORT_TEST_DELAY_RECORDS records (1,500 unless told) over KOHORT_TEST_DELAY_S seconds (12), each held for
KOHORT_TEST_DELAY_MS (3,000). The worker is killed twice.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from kohort.client.aio import Producer
from tests.queues.test_forward_cli import start

RECORDS = int(os.environ.get("KOHORT_TEST_DELAY_RECORDS", "1500"))
SECONDS = float(os.environ.get("KOHORT_TEST_DELAY_S", "12"))
DELAY_MS = int(os.environ.get("KOHORT_TEST_DELAY_MS", "3000"))
IS_MEASURED = "KOHORT_TEST_DELAY_RECORDS" in os.environ  # The machine has nothing else to do.
EARLY_MS_MAX = 100
LATE_MS_MAX = 100
WITHIN_S = 90.0
KILLS = 2
BATCH = 50
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
FILE = """\
bootstrap_servers = "{bootstrap}"

[[forward]]
name = "{name}"
topic = "{topic}"
url = "http://127.0.0.1:{port}/"
delay_ms = {delay_ms}
session_timeout_ms = 6000
"""


class Arrivals:
    """A service that notes when each record came first, how late it was, and how often it came."""

    def __init__(self) -> None:
        self.came_ms: dict[bytes, int] = {}
        self.late_ms: dict[bytes, int] = {}
        self.pushes = 0

    def take(self, head: bytes, value: bytes) -> None:
        now_ms = time.time_ns() // 1_000_000
        at = head.index(b"kafka-timestamp-ms: ") + 20
        due_ms = int(head[at : head.index(b"\r", at)]) + DELAY_MS
        self.pushes += 1
        if value not in self.came_ms:
            self.came_ms[value] = now_ms
            self.late_ms[value] = now_ms - due_ms
        else:
            self.late_ms[value] = min(self.late_ms[value], now_ms - due_ms)


@asynccontextmanager
async def serving(arrivals: Arrivals) -> AsyncIterator[int]:
    """Yield the port of an HTTP service."""

    async def talk(stream: trio.SocketStream) -> None:
        read = b""
        try:
            async for some in stream:
                read += some
                while (end := read.find(b"\r\n\r\n") + 4) >= 4:
                    at = read.index(b"content-length: ") + 16
                    size = int(read[at : read.index(b"\r", at)])
                    if len(read) < end + size:
                        break
                    arrivals.take(read[:end], read[end : end + size])
                    read = read[end + size :]
                    await stream.send_all(OK)
        except trio.BrokenResourceError:
            pass  # The worker was killed.

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, talk, 0)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def send_all(bootstrap: str, topic: str) -> None:
    """Send all records, as many in each moment."""
    began_s = trio.current_time()
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for first in range(0, RECORDS, BATCH):
            for number in range(first, min(first + BATCH, RECORDS)):
                await producer.send(topic, b"%d" % number, partition=number % 2)
            await trio.sleep_until(began_s + SECONDS * (first + BATCH) / RECORDS)


async def test_no_delayed_record_is_early_or_lost_when_its_worker_is_killed(
    bootstrap: str,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(
        "KOHORT_GROUP_INSTANCE_ID", "worker-0"
    )  # Who takes over need not wait for the session.
    arrivals, dead_since_ms = Arrivals(), [time.time_ns() // 1_000_000]
    async with serving(arrivals) as port, trio.open_nursery() as nursery:
        file = tmp_path / "forward.toml"
        name = f"d-{uuid.uuid4().hex[:6]}"
        text = FILE.format(bootstrap=bootstrap, topic=topic, port=port, name=name, delay_ms=DELAY_MS)
        file.write_text(text)
        worker = start(file)
        nursery.start_soon(send_all, bootstrap, topic)
        try:
            for kill in range(KILLS):
                wanted = RECORDS * (kill + 1) // (KILLS + 1)
                with trio.fail_after(SECONDS + DELAY_MS / 1_000 + WITHIN_S):
                    while len(arrivals.came_ms) < wanted:
                        await trio.sleep(0.05)
                worker.kill()
                dead_since_ms.append(time.time_ns() // 1_000_000)
                await trio.to_thread.run_sync(worker.wait)
                worker = start(file)
            with trio.fail_after(SECONDS + DELAY_MS / 1_000 + WITHIN_S):
                while len(arrivals.came_ms) < RECORDS:
                    await trio.sleep(0.05)
        finally:
            worker.kill()
            worker.wait()
    lateness_ms = sorted(arrivals.late_ms.values())
    alive_ms = sorted(late_of_the_living(arrivals, dead_since_ms))
    with capsys.disabled():
        sys.stdout.write(
            f"\n{RECORDS:,} records, {arrivals.pushes:,} pushes, earliest {lateness_ms[0]} ms after its time;"
            f" without {len(lateness_ms) - len(alive_ms):,} that were due while no worker lived: median"
            f" {alive_ms[len(alive_ms) // 2]} ms, 99 % {alive_ms[len(alive_ms) * 99 // 100]} ms, 99.9 %"
            f" {alive_ms[len(alive_ms) * 999 // 1000]} ms, most {alive_ms[-1]} ms\n"
            if alive_ms
            else "\n"
        )
    assert set(arrivals.came_ms) == {b"%d" % each for each in range(RECORDS)}
    assert lateness_ms[0] >= -EARLY_MS_MAX
    if IS_MEASURED:
        assert len(alive_ms) > RECORDS * 9 // 10
        assert alive_ms[len(alive_ms) // 2] <= LATE_MS_MAX


def late_of_the_living(arrivals: Arrivals, dead_since_ms: list[int]) -> list[int]:
    """Return how late the records were that were due while a worker had caught up."""
    dead_ms = []
    for since_ms in dead_since_ms:
        caught_up_ms = (
            came_ms
            for value, came_ms in arrivals.came_ms.items()
            if came_ms > since_ms + 1_000 and arrivals.late_ms[value] <= LATE_MS_MAX
        )
        again_ms = min(caught_up_ms, default=max(arrivals.came_ms.values()))
        dead_ms.append((since_ms, again_ms))
    found = []
    for value, came_ms in arrivals.came_ms.items():
        due_ms = came_ms - arrivals.late_ms[value]
        if not any(begin_ms - LATE_MS_MAX <= due_ms <= end_ms for begin_ms, end_ms in dead_ms):
            found.append(arrivals.late_ms[value])
    return found
