"""What acknowledging one by one costs: plain consumption, KMQ, and the proxy at services of 1, 10 and 100 ms.

    python benchmarks/queues.py [--records N]

One process consumes, on one core, beside a broker of kohort's on the same machine. The service is a class in
that process, so that the proxy is measured and no service; each figure is a run of its own on a new topic.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent.parent))

from kohort.client import Admin, ConsumerRecord, NewTopic, Producer
from kohort.client.aio import Consumer
from kohort.queues.forward import Action, Destination, Forwarder, Verdict
from kohort.queues.forward.forwarder import ensure_topics as ensure_forward_topics
from kohort.queues.kmq import Queue, QueueClient, ensure_topics
from tests.interop.broker_process import BrokerProcess

PARTITIONS = 4
VALUE = bytes(100)
LATENCIES_MS = (0, 1, 10, 100)
Run = Callable[[str, str, int], Awaitable[float]]


async def consume(bootstrap: str, topic: str, records: int) -> float:
    """Return how many seconds a member of a group takes, which commits each batch."""
    began_s, count = 0.0, 0
    async with Consumer(
        topic,
        group_id=f"plain-{topic}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        bootstrap_servers=bootstrap,
    ) as consumer:
        while count < records:
            count += len(await consumer.poll(timeout_ms=1_000))
            await consumer.commit()
            began_s = began_s or time.monotonic()  # Joining the group is not what is measured.
    return time.monotonic() - began_s


async def acknowledge(bootstrap: str, topic: str, records: int) -> float:
    """Return how many seconds a client of a queue takes, which ends each record."""
    queue = Queue(topic)
    await ensure_topics(queue, bootstrap_servers=bootstrap)
    began_s, count = 0.0, 0
    async with QueueClient(queue, bootstrap_servers=bootstrap) as client:
        while count < records:
            batch = await client.next_batch(timeout_ms=1_000)
            for record in batch:
                await client.processed(record)
            count += len(batch)
            began_s = began_s or time.monotonic()
        await client.flush()
    return time.monotonic() - began_s


def push(latency_ms: int) -> Run:
    """Return a run of the proxy at a service that takes so long."""

    class Service:
        async def push(self, record: ConsumerRecord, attempt: int) -> Verdict:
            await trio.sleep(latency_ms / 1_000)
            return Verdict(Action.DONE)

    async def run(bootstrap: str, topic: str, records: int) -> float:
        destination = Destination(name=topic, topic=topic, url="http://127.0.0.1/", concurrency_max=500)
        await ensure_forward_topics(destination, {"bootstrap_servers": bootstrap})
        forwarder = Forwarder(destination, Service(), bootstrap_servers=bootstrap)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(forwarder.run)
            while not forwarder.counts["done"]:
                await trio.sleep(0.001)
            began_s = time.monotonic()
            while forwarder.counts["done"] < records:
                await trio.sleep(0.01)
            took_s = time.monotonic() - began_s
            forwarder.stop()
        return took_s

    return run


def main() -> None:
    """Print a table in Markdown."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--records", type=int, default=40_000)
    records: int = arguments.parse_args().records
    runs: dict[str, tuple[Run, int]] = {
        "a consumer group, a commit a batch": (consume, records),
        "KMQ, a marker for each start and end": (acknowledge, records),
        **{
            f"the proxy, {each} ms a push, up to 500 at once": (
                push(each),
                records // (20 if each > 50 else 4),
            )
            for each in LATENCIES_MS
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder), "group.initial.rebalance.delay.ms=0")
        broker.start()
        print("| | records a second |\n| --- | --- |")
        for number, (name, (run, count)) in enumerate(runs.items()):
            topic = f"bench-{number}"
            with Admin(bootstrap_servers=broker.bootstrap) as admin:
                admin.create_topics(NewTopic(topic, partitions=PARTITIONS))
            with Producer(bootstrap_servers=broker.bootstrap) as producer:
                for each in range(count):
                    producer.send(topic, VALUE, partition=each % PARTITIONS)
            print(f"| {name} | {count / trio.run(run, broker.bootstrap, topic, count):,.0f} |", flush=True)
        broker.stop()


if __name__ == "__main__":
    main()
