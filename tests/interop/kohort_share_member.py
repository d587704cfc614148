"""A member of a share group that is kohort's own: BOOTSTRAP GROUP TOPIC MODE. Until standard input ends.

Prints what `java/ShareMember.java` prints, and judges records as that does.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence

from kohort.client import AcknowledgeType, KohortError, ShareConsumer, ShareRecord, TopicPartition


def main(bootstrap: str, group: str, topic: str, mode: str) -> None:
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    with ShareConsumer(
        topic,
        on_acknowledged=tell,
        bootstrap_servers=bootstrap,
        group_id=group,
        share_acknowledgement_mode=mode,
    ) as consumer:
        say("subscribed")
        while not ends.is_set():
            for record in consumer.poll(timeout_ms=100):
                value = (record.value or b"").decode()
                say(f"record {record.partition} {record.offset} {record.delivery_count} {value}")
                if mode == "explicit":
                    consumer.acknowledge(record, judged(record, value))
    say("closed")


def judged(record: ShareRecord, value: str) -> AcknowledgeType:
    """Return what becomes of a record, as its value wishes."""
    if value.startswith("release") and record.delivery_count < 2:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if value.startswith("reject") else AcknowledgeType.ACCEPT


def tell(offsets: Mapping[TopicPartition, Sequence[int]], error: KohortError | None) -> None:
    """Print what came of acknowledgements."""
    say(f"failed {error}" if error else f"acknowledged {sum(map(len, offsets.values()))}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
