"""Three brokers with three replicas, kohort and Apache Kafka: fail-over, and throughput with acks=all.

    python benchmarks/cluster.py [--rounds 30] [--seconds 5] [--repeats 3] [--only failover,throughput]

Each cluster runs alone, with its default settings. Fail-over: the coordinator of a group is killed, or
stopped, while a client commits; the client looks for the coordinator every millisecond, so that the result is
that of the brokers. Throughput: requests are encoded once and sent over bare sockets. kohort syncs each batch
on every replica before it answers, Kafka does not; so kohort is also measured with Kafka's default of
`log.flush.interval.messages`. The tables are Markdown, for docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.clusters import NODES, Cluster, KafkaCluster, KohortCluster, busy_seconds
from benchmarks.parts.raw_client import (
    Address,
    Committer,
    Connection,
    Load,
    await_whole,
    commit_frame,
    coordinator,
    create_topic,
    is_committed,
    is_produced,
    produce_frame,
    requests_per_second,
    topic_of,
    until,
)

from tests.differential.apache_kafka import MissingTool

TOPIC, OFFSETS = "air", "__consumer_offsets"
GROUP = "flights"
PARTITIONS = 6
GROUPS = 24
LAX = ("log.flush.interval.messages=9223372036854775807",)
LAX_NAME = "kohort, not synced"
QUIET_SECONDS = 1.0
LOADS = (
    "commits, 1 under way",
    "commits, 16 under way",
    "small, 1 under way",
    "small, 5 under way",
    "full batches",
)


class Figure(NamedTuple):
    """Requests per second, and the CPU time of the brokers per thousand requests."""

    per_second: float
    cpu_ms: float


def main() -> None:
    """Measure, and print the tables."""
    options = arguments()
    only = options.only.split(",")
    kinds: dict[str, Callable[[Path], Cluster]] = {
        "kohort": KohortCluster,
        "lax": lambda folder: KohortCluster(folder, *LAX, name=LAX_NAME),
        "kafka": KafkaCluster,
    }
    pauses: dict[str, dict[str, list[float]]] = {}
    figures: dict[str, dict[str, list[Figure]]] = {}
    for make in [kinds[each] for each in options.brokers.split(",")]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-bench-")))
            try:
                cluster = make(folder)
            except MissingTool as missing:
                print(f"without Apache Kafka: {missing}", file=sys.stderr)
                continue
            stack.callback(cluster.stop)
            cluster.start()
            prepare(cluster)
            if "throughput" in only:
                figures[cluster.name] = throughput(cluster, options.seconds, options.repeats)
            if "failover" in only and cluster.name != LAX_NAME:
                pauses[cluster.name] = {
                    "SIGKILL": fail_overs(cluster, options.rounds, signal.SIGKILL),
                    "a drained stop": fail_overs(cluster, options.rounds, signal.SIGTERM),
                }
    print("\n".join((*pause_table(pauses), "", *throughput_table(figures))))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=30, help="how often a coordinator is ended, in each way"
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="failover,throughput")
    parser.add_argument("--brokers", default="kohort,lax,kafka")
    return parser.parse_args()


def prepare(cluster: Cluster) -> None:
    """Have the topics, and a coordinator that takes commits."""
    first = next(iter(cluster.addresses.values()))
    until(lambda: all(topic_of(each, TOPIC) for each in cluster.addresses.values()))
    time.sleep(QUIET_SECONDS)  # A broker answers a moment before all know it.
    create_topic(first, TOPIC, PARTITIONS)
    until(lambda: coordinator(first, GROUP) is not None)
    await_whole(cluster.addresses.values(), TOPIC, OFFSETS)
    print(f"{cluster.name}: three brokers are up", file=sys.stderr)


# -- fail-over ------------------------------------------------------------------------------------------


def fail_overs(cluster: Cluster, rounds: int, how: signal.Signals) -> list[float]:
    """Return for how many ms no commit was taken, each time that the coordinator was ended.

    For a killed broker: from the signal on. For a controlled shutdown: the longest time between two commits.
    """
    pauses = []
    for number in range(rounds):
        await_whole(cluster.addresses.values(), TOPIC, OFFSETS)
        committer = Committer(cluster.addresses, GROUP, TOPIC)
        committer.start()
        until(lambda each=committer: len(each.taken) > 100)  # type: ignore[misc]  # a bound default
        _, node_id = committer.taken[-1]
        at = time.monotonic()
        cluster.end_one(node_id, how)
        until(lambda each=committer, gone=node_id: each.taken[-1][1] != gone)  # type: ignore[misc]
        cluster.await_end(node_id)
        time.sleep(0.2)  # All clients that wait for the end have been notified.
        committer.stop()
        pauses.append(pause(list(committer.taken), at, node_id, how))
        print(f"{cluster.name}: {how.name} {number + 1}: {pauses[-1]:.0f} ms", file=sys.stderr)
        cluster.start_one(node_id)
    return pauses


def pause(taken: list[tuple[float, int]], at: float, node_id: int, how: signal.Signals) -> float:
    """Return the ms without a commit."""
    if how == signal.SIGKILL:
        return (next(when for when, by in taken if when > at and by != node_id) - at) * 1_000
    times = [when for when, _ in taken if when >= at - 0.05]
    return max(after - before for before, after in pairwise(times)) * 1_000


def pause_table(pauses: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    """Yield the table of fail-overs as Markdown."""
    if pauses:
        yield "| Without a commit, ms: median, worst | " + " | ".join(pauses) + " |"
        yield "| --- |" + " ---: |" * len(pauses)
        for how in next(iter(pauses.values())):
            found = [each[how] for each in pauses.values()]
            cells = (f"{statistics.median(each):,.0f}, {max(each):,.0f} (of {len(each)})" for each in found)
            yield f"| {how} | " + " | ".join(cells) + " |"


# -- throughput -----------------------------------------------------------------------------------------


def throughput(cluster: Cluster, seconds: float, repeats: int) -> dict[str, list[Figure]]:
    """Return the result of each load, each time. A server with a JIT compiler runs each once before."""
    found: dict[str, list[Figure]] = {each: [] for each in LOADS}
    for number in range(repeats + 1):
        for name in LOADS:
            loads = loads_of(cluster, name)
            cpu, (busy, up) = cluster.cpu_seconds(), busy_seconds()
            own = time.process_time()
            per_second = requests_per_second(loads, seconds)
            cpu = cluster.cpu_seconds() - cpu
            busy, up = busy_seconds()[0] - busy, busy_seconds()[1] - up
            figure = Figure(per_second, cpu * 1e6 / (per_second * seconds))
            others = (busy - cpu - (time.process_time() - own)) / up
            print(
                f"{cluster.name}: {name}: {figure.per_second:,.0f}/s, {figure.cpu_ms:.0f} ms of CPU a 1,000, "
                f"others take {others:.0%} of the machine{'' if number else ' (warming up)'}",
                file=sys.stderr,
            )
            if number:
                found[name].append(figure)
    return found


def loads_of(cluster: Cluster, name: str) -> list[Load]:
    """Return the connections of a load."""
    first = next(iter(cluster.addresses.values()))
    if name.startswith("commits"):
        depth = int(name.split()[1])
        found = []
        for number in range(GROUPS):
            group_id = f"group-{number}"
            until(lambda each=group_id: coordinator(first, each) is not None)  # type: ignore[misc]
            frame = commit_frame(group_id, TOPIC, 7)
            until(lambda each=group_id, sent=frame: takes(first, each, sent))  # type: ignore[misc]
            where = coordinator(first, group_id)
            assert where is not None
            found.append(Load(where[1], frame, depth, is_committed))
        return found
    records, value_bytes, depth = (16, 1_024, 5) if name == "full batches" else (1, 100, int(name.split()[1]))
    return [
        Load(
            cluster.addresses[each.leader_id],
            produce_frame(TOPIC, each.partition_index, records, value_bytes),
            depth,
            is_produced,
        )
        for each in topic_of(first, TOPIC).partitions
    ]


def takes(first: Address, group_id: str, frame: bytes) -> bool:
    """Return whether the group's coordinator has loaded it."""
    where = coordinator(first, group_id)
    if where is None:
        return False
    connection = Connection(where[1])
    try:
        connection.send(frame)
        return is_committed(connection.receive())
    finally:
        connection.close()


def throughput_table(figures: dict[str, dict[str, list[Figure]]]) -> Iterator[str]:
    """Yield the table of throughput as Markdown: medians, and ratios to Apache Kafka's."""
    if not figures:
        return
    kafka = figures.get(KafkaCluster.name)
    yield "| Requests a second, ms of the brokers' CPU for a thousand | " + " | ".join(figures) + " |"
    yield "| --- |" + " ---: |" * len(figures)
    for name in LOADS:
        cells = []
        for each in figures.values():
            rate, cpu = medians(each[name])
            cell = f"{rate:,.0f}, {cpu:,.0f}"
            if kafka is not None and each is not kafka:
                kafka_rate, kafka_cpu = medians(kafka[name])
                cell += f" ({rate / kafka_rate:.2f} times as many, {cpu / kafka_cpu:.2f} of the CPU)"
            cells.append(cell)
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield f"\n{len(NODES)} brokers and the client on {os.cpu_count()} cores."


def medians(found: list[Figure]) -> tuple[float, float]:
    return (
        statistics.median(each.per_second for each in found),
        statistics.median(each.cpu_ms for each in found),
    )


if __name__ == "__main__":
    main()
