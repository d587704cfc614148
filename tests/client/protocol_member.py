"""A member of a consumer group in a process of its own, there to be killed.

python -m tests.client.protocol_member OPTIONS TOPIC     prints its partitions and what it reads, as JSON
"""

from __future__ import annotations

import json
import sys

from kohort.client import Consumer


def main() -> None:
    """Read until killed; commit nothing."""
    shown: list[int] | None = None
    with Consumer(sys.argv[2], **json.loads(sys.argv[1])) as consumer:
        while True:
            values = [(each.value or b"").decode() for each in consumer.poll(timeout_ms=50)]
            partitions = [each.partition for each in consumer.assignment()]
            if values or partitions != shown:
                shown = partitions
                print(json.dumps([partitions, values]), flush=True)  # noqa: T201  # Its parent reads this.


if __name__ == "__main__":
    main()
