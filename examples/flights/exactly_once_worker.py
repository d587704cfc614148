"""A worker of `exactly_once.py`: `python -m examples.flights.exactly_once_worker NUMBER BOOTSTRAP`."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from examples.flights import settings
from examples.flights.dataset import Flight
from examples.flights.members import ROOT
from kohort.client import Consumer, KohortError, Producer, TopicPartition

DELAYS = "delays"
FLIGHTS_PER_SECOND = 12_000  # Slower than it could: there is something left to do when somebody is killed.
STOP_SECONDS = 15.0
RETRY_SECONDS = 0.2


def work(number: int, bootstrap: str, stopping: threading.Event) -> None:
    """Take flights in until `stopping`; whatever fails, from where the last transaction ended."""
    while not stopping.is_set():
        try:
            work_until_trouble(number, bootstrap, stopping)
        except KohortError as error:
            logging.warning("worker %d begins anew: %s", number, error)
            time.sleep(RETRY_SECONDS)


def work_until_trouble(number: int, bootstrap: str, stopping: threading.Event) -> None:
    """Take flights in, a transaction for each poll. Raises: KohortError."""
    decode = msgspec.json.Decoder(Flight).decode
    with (
        Consumer(
            settings.TOPIC,
            bootstrap_servers=bootstrap,
            group_id=settings.GROUP,
            session_timeout_ms=settings.SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=settings.HEARTBEAT_INTERVAL_MS,
            auto_offset_reset="earliest",
            isolation_level="read_committed",  # Nothing that a transaction has taken back.
            enable_auto_commit=False,
            max_poll_records=settings.BATCH_RECORDS,
        ) as consumer,
        Producer(bootstrap_servers=bootstrap, transactional_id=f"worker-{number}") as producer,
    ):
        producer.init_transactions()  # What a worker of this number has left open is aborted.
        while not stopping.is_set():
            records = consumer.poll(timeout_ms=settings.POLL_TIMEOUT_MS)
            if not records:
                continue
            offsets: dict[TopicPartition, int] = {}
            with producer.transaction():
                for record in records:
                    flight = decode(record.value or b"")
                    producer.send(
                        DELAYS, msgspec.json.encode((flight.index, flight.arrival_delay)), key=record.key
                    )
                    offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
                producer.send_offsets(offsets, consumer.group_metadata())
            time.sleep(len(records) / FLIGHTS_PER_SECOND)


class WorkerProcess:
    """A worker in a process of its own, its standard error in a file."""

    def __init__(self, number: int, bootstrap: str, folder: Path) -> None:
        self._log_path = folder / f"worker-{number}.log"
        command = [sys.executable, "-m", "examples.flights.exactly_once_worker", str(number), bootstrap]
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def check(self) -> None:
        """Raise RuntimeError with its last words if it ended by itself."""
        if self._process.poll() is not None:
            tail = "\n".join(self._log_path.read_text().splitlines()[-5:])
            raise RuntimeError(f"a worker ended with {self._process.returncode}: {tail}")

    def kill(self) -> None:
        """Kill it with SIGKILL: it ends no transaction, and leaves no group."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to stop, insist if it does not, and return when it is gone."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


def main() -> None:
    """Run until SIGTERM."""
    number, bootstrap = sys.argv[1:]
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    work(int(number), bootstrap, stopping)


if __name__ == "__main__":
    main()
