"""A member of a share group that is librdkafka's: BOOTSTRAP GROUP TOPIC. Until standard input ends.

Prints what `java/ShareMember.java` prints; acknowledgements are implicit, delivery counts are not told.
"""

from __future__ import annotations

import os
import sys
import threading

from confluent_kafka import ShareConsumer

CLOSE_TIMEOUT_S = 10.0


def main(bootstrap: str, group: str, topic: str) -> None:
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    say("subscribed")
    while not ends.is_set():
        for message in consumer.poll(timeout=0.2) or ():
            value = message.value()
            if message.error() is None and value is not None:
                say(f"record {message.partition()} {message.offset()} 0 {value.decode()}")
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(CLOSE_TIMEOUT_S)  # librdkafka 2.16 calls it a preview, and sometimes does not come back.
    say("closed")
    os._exit(0)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
