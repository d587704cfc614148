"""The cost of acknowledging one by one: consumer groups, KMQ, share groups, the push proxy, and regions.

    python benchmarks/queues.py [--records N] [--repeat N] [--only WORD]

Each figure is from a separate process that consumes a new topic, beside a kohort broker on the same
machine. The measurement begins after the first batch, and also counts its CPU time, which other work on the
machine changes less. A service "in the process" is a class that waits, so that only the proxy is measured;
one "over HTTP" is another process. Medians of the repetitions are printed, and how many times the CPU time of
another row a record takes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parent.parent))

from kohort.client import Admin, ConsumerRecord, NewTopic, Producer
from kohort.client.aio import Consumer
from kohort.client.config import ConsumerOptions
from kohort.queues.forward import Action, Condition, Destination, Forwarder, Route, Verdict, open_service
from kohort.queues.forward.topics import ensure_topics as ensure_forward_topics
from kohort.queues.kmq import Queue, QueueClient, ensure_topics
from kohort.queues.region import Region, RegionMember
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import JAVA_FOLDER, MissingTool, classes, jars

PARTITIONS = 4
VALUE = bytes(100)
LATENCIES_MS = (0, 1, 10, 100)
CHECKPOINT_MS = 1_000
ROUTES, FAST_MS, SLOW_MS = 10, 2, 200
RECORDS_MIN = 2_000  # More than one batch, for any value of --records.


@dataclass(frozen=True, slots=True)
class Took:
    """From after the first batch to the last record; `records` arrived in that time."""

    wall_s: float
    cpu_s: float
    records: int


class Watch:
    """Begins with its first `seen`, so that joining a group is not measured."""

    def __init__(self) -> None:
        self._began: tuple[float, float, int] | None = None

    def seen(self, count: int) -> None:
        if count:
            self._began = self._began or (time.monotonic(), time.process_time(), count)

    def took(self, count: int) -> Took:
        assert self._began is not None
        wall_s, cpu_s, first = self._began
        assert count > first, "there was one batch alone: give more records"
        return Took(time.monotonic() - wall_s, time.process_time() - cpu_s, count - first)


Run = Callable[[str, str, int], Awaitable[Took]]


async def consume(bootstrap: str, topic: str, records: int) -> Took:
    """A member of a group, which commits each batch."""
    watch, count = Watch(), 0
    async with Consumer(
        topic,
        group_id=f"plain-{topic}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        bootstrap_servers=bootstrap,
    ) as consumer:
        while count < records:
            for _ in await consumer.poll(timeout_ms=1_000):
                count += 1
            await consumer.commit()
            watch.seen(count)
    return watch.took(count)


async def acknowledge(bootstrap: str, topic: str, records: int) -> Took:
    """A client of a queue, which ends each record."""
    queue = Queue(topic)
    await ensure_topics(queue, bootstrap_servers=bootstrap)
    watch, count = Watch(), 0
    async with QueueClient(queue, bootstrap_servers=bootstrap) as client:
        while count < records:
            batch = await client.next_batch(timeout_ms=1_000)
            for record in batch:
                await client.processed(record)
            count += len(batch)
            watch.seen(count)
        await client.flush()
        return watch.took(count)


async def consume_with_librdkafka(bootstrap: str, topic: str, records: int) -> Took:
    """The same with librdkafka, in batches as large as those of its share consumer."""
    import confluent_kafka

    settings = {"bootstrap.servers": bootstrap, "group.id": f"plain-{topic}", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    watch, count = Watch(), 0
    while count < records:
        batch = consumer.consume(500, timeout=1)
        for message in batch:
            assert message.error() is None, message.error()
            count += 1
        if batch:
            consumer.commit(asynchronous=False)
            watch.seen(count)
    return watch.took(count)


async def share_with_librdkafka(bootstrap: str, topic: str, records: int) -> Took:
    """A member of a share group, which acknowledges its records with the next poll."""
    from confluent_kafka import ShareConsumer

    from tests.interop.share_members import configure

    group = f"share-{topic}"
    configure(bootstrap, group)
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    watch, count = Watch(), 0
    while count < records:
        for message in consumer.poll(timeout=1) or ():
            assert message.error() is None, message.error()
            count += 1
        watch.seen(count)
    return watch.took(count)


async def run_java(kind: str, bootstrap: str, topic: str, records: int) -> Took:
    """The original of KMQ, or Java's consumer: in a process of its own, from behind the first tenth."""
    await ensure_topics(Queue(topic), bootstrap_servers=bootstrap)
    folder = jars("kmq")
    class_path = f"{classes(JAVA_FOLDER / 'KmqSpeed.java', folder)}:{folder}/*"
    command = ["java", "-Xmx512m", "-cp", class_path, "KmqSpeed", kind, bootstrap, topic, str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    wall_s, cpu_s, count = map(float, done.stdout.split())
    return Took(wall_s, cpu_s, int(count))


class Waits:
    """A service in the process."""

    def __init__(self, latency_ms: int) -> None:
        self._latency_s = latency_ms / 1_000

    async def push(self, record: ConsumerRecord, attempt: int) -> Verdict:
        await trio.sleep(self._latency_s)
        return Verdict(Action.DONE)


class Counts(Waits):
    """One that says how many records it has taken."""

    count = 0

    async def push(self, record: ConsumerRecord, attempt: int) -> Verdict:
        verdict = await super().push(record, attempt)
        self.count += 1
        return verdict


async def push_inside(latency_ms: int, bootstrap: str, topic: str, records: int) -> Took:
    """The proxy, at a service in the process."""
    destination = Destination(name=topic, topic=topic, url="http://127.0.0.1/", concurrency_max=500)
    return await _forward(Forwarder(destination, Waits(latency_ms), bootstrap_servers=bootstrap), records)


async def push_over_http(latency_ms: int, bootstrap: str, topic: str, records: int) -> Took:
    """The proxy, at a service in another process."""
    command = [sys.executable, __file__, "--serve", str(latency_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/"
        destination = Destination(name=topic, topic=topic, url=url, concurrency_max=500)
        try:
            async with open_service(destination) as service:
                return await _forward(Forwarder(destination, service, bootstrap_servers=bootstrap), records)
        finally:
            server.kill()


def write_routed(bootstrap: str, topic: str, routes: list[str], records: int) -> None:
    """Make a topic with as many records for each route."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=PARTITIONS))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for each in range(records):
            headers = [("to", routes[each // PARTITIONS % len(routes)].encode())]
            producer.send(topic, VALUE, partition=each % PARTITIONS, headers=headers)


async def push_to_ten(slow_ms: int, bootstrap: str, topic: str, records: int) -> Took:
    """The proxy, with ten routes: what nine take that answer in FAST_MS, beside one in `slow_ms`."""
    records -= records % (ROUTES * PARTITIONS)
    names = [f"route-{each}" for each in range(ROUTES)]
    routes = tuple(
        Route(name=each, when=(Condition(header="to", equals=each),), url="http://127.0.0.1/")
        for each in names
    )
    destination = Destination(name=topic, topic=f"{topic}-routed", url="http://127.0.0.1/", route=routes)
    await trio.to_thread.run_sync(write_routed, bootstrap, destination.topic, names, records)
    services = [Counts(slow_ms if each == names[0] else FAST_MS) for each in names]
    options: ConsumerOptions = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest"}
    forwarder = Forwarder(destination, services[0], routed=dict(zip(names, services, strict=True)), **options)
    await ensure_forward_topics(destination, options)
    watch, expected = Watch(), records // ROUTES * (ROUTES - 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forwarder.run)
        while (count := sum(each.count for each in services[1:])) < expected:
            await trio.sleep(0.005)
            watch.seen(count)
        took = watch.took(count)
        nursery.cancel_scope.cancel()
    return took


async def _forward(forwarder: Forwarder, records: int) -> Took:
    await ensure_forward_topics(forwarder.destination, forwarder._options)
    watch = Watch()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forwarder.run)
        while forwarder.counts["done"] < records:
            await trio.sleep(0.005)
            watch.seen(forwarder.counts["done"])
        took = watch.took(records)
        assert forwarder.counts.total() == records, forwarder.counts
        forwarder.stop()
    return took


class Sum:
    """An operator that does next to nothing."""

    def __init__(self) -> None:
        self.count = 0
        self.saved = 0

    async def process(self, record: ConsumerRecord) -> None:
        self.count += 1

    def save(self, sequence_id: int) -> bytes:
        self.saved += 1
        return b"%d" % self.count

    def restore(self, state: bytes | None) -> None:
        self.count = int(state or b"0")


async def checkpoint(period_ms: int, bootstrap: str, topic: str, records: int) -> Took:
    """A region of one member, its coordinator in another process."""
    region, operator, watch = Region(f"region-{topic}", members=1), Sum(), Watch()
    period = ["--members", "1", "--period-ms", str(period_ms)]
    command = [
        sys.executable,
        "-m",
        "kohort.cli",
        "region",
        "coordinate",
        region.name,
        *period,
        "-q",
        "-b",
        bootstrap,
    ]
    with subprocess.Popen(command) as coordinator:
        try:
            async with trio.open_nursery() as nursery:
                member = RegionMember(region, "a", operator, topics=[topic], bootstrap_servers=bootstrap)
                nursery.start_soon(member.run)
                while operator.count < records:
                    await trio.sleep(0.005)
                    watch.seen(operator.count)
                took = watch.took(records)
                member.stop()
        finally:
            coordinator.kill()
    assert (operator.saved > 0) == (period_ms > 0), operator.saved
    return took


@dataclass(frozen=True, slots=True)
class Row:
    """A run, how many of the records it reads, and the row that it is compared with."""

    name: str
    run: Run
    share: float
    beside: str = ""
    is_java: bool = False


PLAIN = "a consumer group, a commit a batch"
PLAIN_LIBRDKAFKA = "a consumer group, librdkafka, a commit a batch"
PLAIN_JAVA = "a consumer group, Java, a commit a batch"
ALIKE = "the proxy, nine routes beside one like them"
UNCHECKED = "a region without checkpoints"
ROWS = (
    Row(PLAIN, consume, 5),
    Row("KMQ, a marker for each start and end", acknowledge, 1, PLAIN),
    Row(PLAIN_LIBRDKAFKA, consume_with_librdkafka, 5),
    Row("a share group, librdkafka", share_with_librdkafka, 5, PLAIN_LIBRDKAFKA),
    Row(PLAIN_JAVA, partial(run_java, "plain"), 50, is_java=True),
    Row("KMQ's original, Java", partial(run_java, "kmq"), 10, PLAIN_JAVA, is_java=True),
    *(
        Row(
            f"the proxy, {each} ms in the process",
            partial(push_inside, each),
            0.05 if each > 50 else 0.25,
            PLAIN,
        )
        for each in LATENCIES_MS
    ),
    *(
        Row(
            f"the proxy, {each} ms over HTTP",
            partial(push_over_http, each),
            0.05 if each > 50 else 0.1,
            PLAIN,
        )
        for each in LATENCIES_MS
    ),
    Row(ALIKE, partial(push_to_ten, FAST_MS), 1),
    Row(
        "the proxy, nine routes beside one that takes 100 times as long",
        partial(push_to_ten, SLOW_MS),
        1,
        ALIKE,
    ),
    Row(UNCHECKED, partial(checkpoint, 0), 50, PLAIN),
    Row("a region, a checkpoint each second", partial(checkpoint, CHECKPOINT_MS), 50, UNCHECKED),
)


async def serve(latency_ms: int) -> None:
    """Print a port, and answer each POST there with an empty response, after this delay."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

    async def talk(stream: trio.SocketStream) -> None:
        read = b""
        async for some in stream:
            read += some
            while (end := read.find(b"\r\n\r\n")) >= 0:
                lines = read[:end].lower().split(b"\r\n")
                size = next(int(each[15:]) for each in lines if each.startswith(b"content-length:"))
                if len(read) < end + 4 + size:
                    break
                read = read[end + 4 + size :]
                await trio.sleep(latency_ms / 1_000)
                await stream.send_all(answer)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=1_000)
    print(listeners[0].socket.getsockname()[1], flush=True)
    await trio.serve_listeners(talk, listeners)


@contextmanager
def broker() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        process = BrokerProcess(Path(folder), "group.initial.rebalance.delay.ms=0")
        process.start()
        try:
            yield process.bootstrap
        finally:
            process.stop()


def measure(row: Row, bootstrap: str, topic: str, records: int) -> Took:
    """Return the result of a process that reads the records of a new topic."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, partitions=PARTITIONS))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for each in range(records):
            producer.send(topic, VALUE, partition=each % PARTITIONS)
    command = [sys.executable, __file__, "--one", row.name, bootstrap, topic, str(records)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=600)
    return Took(*json.loads(done.stdout))


def main() -> None:
    """Print a table in Markdown."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--records", type=int, default=40_000)
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument(
        "--only", default="", help="rows whose names have this word, and those beside them"
    )
    arguments.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.serve is not None:
        trio.run(serve, options.serve)
    elif options.one is not None:
        name, bootstrap, topic, records = options.one
        run = next(each.run for each in ROWS if each.name == name)
        took = trio.run(run, bootstrap, topic, int(records))
        print(json.dumps([took.wall_s, took.cpu_s, took.records]), flush=True)
        os._exit(0)  # librdkafka's share consumer is a preview, and does not always end.
    else:
        compare(options.records, options.repeat, options.only)


def has_original() -> bool:
    """Return whether there is Java, and KMQ's original for it."""
    try:
        jars("kmq")
    except MissingTool as missing:
        print(f"without Java: {missing}", file=sys.stderr)
        return False
    return True


def compare(records: int, repeat: int, only: str) -> None:
    wanted = [each for each in ROWS if only in each.name]
    if any(each.is_java for each in wanted) and not has_original():
        wanted = [each for each in wanted if not each.is_java]
    beside = {each.beside for each in wanted}
    rows = [each for each in ROWS if each in wanted or each.name in beside]
    found: dict[str, list[tuple[float, float]]] = {each.name: [] for each in rows}
    with broker() as bootstrap:
        for round_number in range(repeat):
            for number, row in enumerate(rows):
                topic = f"bench-{round_number}-{number}"
                took = measure(row, bootstrap, topic, max(RECORDS_MIN, int(records * row.share)))
                found[row.name].append((took.wall_s / took.records, took.cpu_s / took.records))
                print(f"{row.name}: {took.records / took.wall_s:,.0f}/s", file=sys.stderr, flush=True)
    print("| | records a second | a CPU second | CPU time a record |\n| --- | ---: | ---: | ---: |")
    cpu_s = {name: statistics.median(cpu_s for _, cpu_s in took) for name, took in found.items()}
    for row in rows:
        wall_s = statistics.median(wall_s for wall_s, _ in found[row.name])
        times = f"{cpu_s[row.name] / cpu_s[row.beside]:.2f} times {row.beside}" if row.beside else ""
        print(f"| {row.name} | {1 / wall_s:,.0f} | {1 / cpu_s[row.name]:,.0f} | {times} |")


if __name__ == "__main__":
    main()
