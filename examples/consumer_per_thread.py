"""One consumer in each of several threads: the simplest way to read with more than one pair of hands.

python examples/consumer_per_thread.py BOOTSTRAP TOPIC GROUP [THREADS]

Each thread is a member of the group and has partitions of its own, so that more threads than partitions
bring nothing. A record that is handled slowly holds up the rest of its thread's partitions; what is
handled is committed before the next records are polled. Ends with Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading

from kohort.client import Consumer, ConsumerRecord


def handle(record: ConsumerRecord) -> None:
    """Do the work: here, say what came, in one piece, for others print as well."""
    sys.stdout.write(f"{record.topic}-{record.partition} {record.offset} {record.value!r}\n")
    sys.stdout.flush()


def consume(bootstrap: str, topic: str, group: str, stopping: threading.Event) -> None:
    """Read as one member until it is time to stop. A consumer belongs to the thread that made it."""
    with Consumer(
        topic,
        group_id=group,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stopping.is_set():
            records = consumer.poll(timeout_ms=200)
            for record in records:
                handle(record)
            if records:
                consumer.commit()


def main() -> None:
    """Run the threads, and end them all when the first has failed or a signal comes."""
    bootstrap, topic, group, *rest = sys.argv[1:]
    stopping = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            consume(bootstrap, topic, group, stopping)
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            stopping.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: stopping.set())
    threads = [threading.Thread(target=run) for _ in range(int(rest[0]) if rest else 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
