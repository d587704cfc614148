"""A member of a group that notes every record it has processed in a file, flushed, until it is killed.

python -m tests.kills.reader MODE BOOTSTRAP TOPIC GROUP JOURNAL     ends when its standard input does

at-most-once    commits what it polled, then processes it
at-least-once   processes what it polled, then commits it
worker-pool     leaves both to a pool of workers
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kohort.client import Consumer, ConsumerRecord, KohortError
from kohort.client.config import ConsumerOptions
from kohort.client.workers import WorkerPool

POLL_MS = 100
WORK_S = 0.003  # So that a kill finds records that are half done.


class Journal:
    """A file of processed records, a line each, in the order in which they were done."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def process(self, record: ConsumerRecord) -> None:
        """Do the work: note the record so that no kill can undo it."""
        time.sleep(WORK_S)
        key = (record.key or b"").decode()
        os.write(self._file, f"{record.partition} {record.offset} {key}\n".encode())
        os.fsync(self._file)


def options(bootstrap: str, group: str) -> ConsumerOptions:
    """Return settings of a member that is missed soon."""
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": 1_000,
        "heartbeat_interval_ms": 250,
        "max_poll_records": 20,
        "enable_auto_commit": False,
        "auto_commit_interval_ms": 100,  # Of the pool, which commits by itself.
    }


def read(
    topic: str, settings: ConsumerOptions, step: Callable[[Consumer], None], stopping: threading.Event
) -> None:
    """Take one step after the other until it is time to stop."""
    with Consumer(topic, **settings) as consumer:
        while not stopping.is_set():
            step(consumer)


def commit_then_process(consumer: Consumer, journal: Journal) -> None:
    """Process only what was surely committed before: at most once."""
    records = consumer.poll(timeout_ms=POLL_MS)
    try:
        consumer.commit()
    except KohortError:
        return  # Perhaps it is kept, and somebody else reads on from there: these records are given up.
    for record in records:
        journal.process(record)


def process_then_commit(consumer: Consumer, journal: Journal) -> None:
    """Commit only what was surely processed before: at least once."""
    records = consumer.poll(timeout_ms=POLL_MS)
    for record in records:
        journal.process(record)
    try:
        consumer.commit()
    except KohortError:
        return  # The next commit, with or without records, makes up for it; or the next owner.


def main() -> None:
    """Read in one of the modes."""
    mode, bootstrap, topic, group, path = sys.argv[1:]
    journal = Journal(Path(path))
    settings = options(bootstrap, group)
    stopping = threading.Event()
    pool = WorkerPool(topic, handler=journal.process, window_max=50, **settings)

    def stop_with_parent() -> None:
        sys.stdin.read()
        stopping.set()
        pool.stop()

    threading.Thread(target=stop_with_parent, daemon=True).start()
    if mode == "worker-pool":
        pool.run()
    elif mode == "at-least-once":
        read(topic, settings, lambda consumer: process_then_commit(consumer, journal), stopping)
    else:
        read(topic, settings, lambda consumer: commit_then_process(consumer, journal), stopping)


if __name__ == "__main__":
    main()
