"""A consumer of one's own, with kohort's client: KOHORT_GROUP_INSTANCE_ID makes it a static member."""

import os
import signal
from pathlib import Path
from types import FrameType

from kohort.client import Consumer

JOINED = Path(os.environ.get("JOINED_FILE", "/tmp/joined"))
"""It is there once this process is a member: what the readiness probe looks for."""


def main() -> None:
    """Read until SIGTERM, and commit what was read."""
    JOINED.unlink(missing_ok=True)
    is_stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    with Consumer(
        "payments",
        bootstrap_servers=os.environ["KOHORT_BOOTSTRAP_SERVERS"],
        group_id="readers",
        session_timeout_ms=120_000,
        auto_offset_reset="earliest",
    ) as consumer:
        while not is_stopping:
            for record in consumer.poll(timeout_ms=500):
                print(record.topic, record.partition, record.offset, flush=True)
            if consumer.group_metadata().generation_id >= 0:
                JOINED.touch()


if __name__ == "__main__":
    main()
