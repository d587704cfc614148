"""One poller and many workers: more hands than partitions, records of one key in their order.

python examples/worker_pool.py BOOTSTRAP TOPIC GROUP [WORKERS]

The pool polls in this thread and handles records in others. It commits what is done without gaps, so that
a crash repeats records and loses none. Ends with Ctrl-C or SIGTERM, and leaves nothing half done.
"""

from __future__ import annotations

import signal
import sys

from kohort.client import ConsumerRecord
from kohort.client.workers import Order, WorkerPool


def handle(record: ConsumerRecord) -> None:
    """Do the work: here, say what came, in one piece, for others print as well."""
    sys.stdout.write(f"{record.topic}-{record.partition} {record.offset} {record.value!r}\n")
    sys.stdout.flush()


def say_and_go_on(record: ConsumerRecord, error: Exception) -> None:
    """Deal with a record that could not be handled: keep it for later, or count it, and go on."""
    print(f"{record.topic}-{record.partition} {record.offset} failed: {error!r}", file=sys.stderr)


def main() -> None:
    """Run the pool until a signal comes."""
    bootstrap, topic, group, *rest = sys.argv[1:]
    pool = WorkerPool(
        topic,
        handler=handle,
        on_error=say_and_go_on,
        workers=int(rest[0]) if rest else 8,
        order=Order.KEY,
        group_id=group,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
    )
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: pool.stop())
    pool.run()


if __name__ == "__main__":
    main()
