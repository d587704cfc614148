"""A worker of a queue that notes each record it is given, and each that it has done, until it is killed.

python -m tests.queues.kmq_worker BOOTSTRAP TOPIC TIMEOUT_MS JOURNAL     ends when its standard input does
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import trio

from kohort.client import ConsumerRecord
from kohort.client.config import ConsumerOptions
from kohort.queues.kmq import Queue, QueueWorker, RedeliveryTracker
from kohort.queues.kmq.copies import first_offset

FAILS_EVERY = 7  # The first deliveries of so many are failures.
NEVER_DONE_EVERY = 31


def options(bootstrap: str) -> ConsumerOptions:
    """Return settings of a member that is missed soon."""
    return {
        "bootstrap_servers": bootstrap,
        "session_timeout_ms": 1_000,
        "heartbeat_interval_ms": 250,
        "fetch_max_wait_ms": 100,
    }


class Journal:
    """A file with a line for each delivery, written before any kill can undo it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    async def handle(self, record: ConsumerRecord) -> None:
        """Note that the record was given to us; fail with some, and note that the others are done."""
        first = first_offset(record)
        self._write("given", record.partition, first)
        await trio.sleep(0.002)
        is_first = first == record.offset
        if first % NEVER_DONE_EVERY == 0 or (is_first and first % FAILS_EVERY == 0):
            raise ValueError(first)
        self._write("done", record.partition, first)

    def _write(self, what: str, partition: int, offset: int) -> None:
        os.write(self._file, f"{what} {partition} {offset}\n".encode())


async def main() -> None:
    """Work, or track, until standard input ends."""
    role, bootstrap, topic, timeout_ms, path = sys.argv[1:]
    queue = Queue(topic, message_timeout_ms=int(timeout_ms), use_now_after_ms=300)
    process: QueueWorker | RedeliveryTracker
    if role == "worker":
        journal = Journal(Path(path))
        process = QueueWorker(queue, journal.handle, workers=4, batch_max=20, **options(bootstrap))
    else:
        process = RedeliveryTracker(queue, **options(bootstrap))
    token = trio.lowlevel.current_trio_token()

    def stop_with_parent() -> None:
        sys.stdin.read()
        trio.from_thread.run_sync(process.stop, trio_token=token)

    threading.Thread(target=stop_with_parent, daemon=True).start()
    await process.run()


if __name__ == "__main__":
    trio.run(main)
