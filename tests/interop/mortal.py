"""A group member that prints its assignment whenever it changes, until it is killed or its parent is."""

from __future__ import annotations

import json
import sys
import threading

from tests.interop.clients import ALL_CLIENTS, ConsumerOptions


def main() -> None:
    """Poll until standard input ends."""
    name, bootstrap, group, topics, session_timeout_ms = json.loads(sys.argv[1])
    options = ConsumerOptions(group=group, topics=topics, session_timeout_ms=session_timeout_ms)
    consumer = ALL_CLIENTS[name].consumer(bootstrap, options)
    parent_gone = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        parent_gone.set()

    threading.Thread(target=watch, daemon=True).start()
    shown = None
    while not parent_gone.is_set():
        consumer.poll(0.05)
        assignment = sorted((each.topic, each.partition) for each in consumer.assignment())
        if assignment != shown:
            shown = assignment
            print(json.dumps(shown), flush=True)  # noqa: T201  # Its parent reads this.


if __name__ == "__main__":
    main()
