"""One member of the group: `python -m examples.flights.member CLIENT BOOTSTRAP FOLDER`.

Each client is used as its own users would: read a batch, count it, commit it. SIGTERM ends the member,
which then leaves its group.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from examples.flights.journal import Journal

Member = Callable[[str, Journal, threading.Event], None]


def member_for(client: str) -> Member:
    """Return the function that runs a member with this client; only that client is imported."""
    match client:
        case "kafka-python":
            from examples.flights.member_kafka_python import run
        case "aiokafka":
            from examples.flights.member_aiokafka import run
        case "confluent-kafka":
            from examples.flights.member_confluent import run
        case "confluent-kafka-consumer":
            from examples.flights.member_confluent import run_consumer as run
        case "kohort-consumer-1" | "kohort-consumer-2":
            from examples.flights.member_kohort import run
        case "kohort-share-1" | "kohort-share-2" | "kohort-share-3":
            from examples.flights.member_kohort import run_shared as run
        case _:
            raise SystemExit(f"no client is called {client}")
    return run


def main() -> None:
    """Run until SIGTERM."""
    client, bootstrap, folder = sys.argv[1:]
    stopping = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    journal = Journal(Path(folder), client)
    journal.note("started")
    member_for(client)(bootstrap, journal, stopping)
    journal.note("left")


if __name__ == "__main__":
    main()
