"""Python's Kafka clients side by side: records a second, produced and consumed, on the same broker.

    python benchmarks/clients.py [--repeats N] [--seconds-each S] [--only WORDS] [--markdown]

Every figure is a process of its own. The clients take turns, and the median of the repetitions counts.
All have the same settings: acks=all, linger 5 ms, batches of 16,384 bytes, no compression; consumers read
assigned partitions from their beginning and look at every value. Apache Kafka joins in where there is Java.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.client_runs import CONSUMERS, PRODUCERS, fill, make_topic

from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.interop.broker_process import BrokerProcess

PACKAGES = ("confluent-kafka", "aiokafka", "kafka-python", "pyarrow")
RUN_TIMEOUT_S = 120


class Cell(NamedTuple):
    """What one table row is about."""

    broker: str
    record_bytes: int
    partitions: int

    def __str__(self) -> str:
        plural = "s" if self.partitions > 1 else ""
        return f"{self.broker}, {self.record_bytes:,} B, {self.partitions} partition{plural}"


class Run(NamedTuple):
    """One client at one task."""

    task: str
    client: str


def main() -> None:
    """Measure, and print the tables."""
    options = arguments()
    if options.child:
        child(json.loads(options.child))
        return
    figures: dict[tuple[Cell, Run], list[float]] = {}
    with contextlib.ExitStack() as stack:
        brokers = started_brokers(stack, options.brokers.split(","))
        for cell in cells(list(brokers), options):
            measure(cell, brokers[cell.broker], options, figures)
    print("\n".join(report({each: statistics.median(found) for each, found in figures.items()})))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=50, help="how much is read or written each time")
    parser.add_argument("--brokers", default="kohort,Kafka")
    parser.add_argument("--sizes", default="100,1024")
    parser.add_argument("--partitions", default="1,8")
    parser.add_argument("--tasks", default="consume,produce")
    parser.add_argument("--only", default="", help="clients whose name has one of these words, with commas")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def cells(brokers: list[str], options: argparse.Namespace) -> Iterator[Cell]:
    for broker in brokers:
        for size in map(int, options.sizes.split(",")):
            for partitions in map(int, options.partitions.split(",")):
                yield Cell(broker, size, partitions)


def started_brokers(stack: contextlib.ExitStack, names: list[str]) -> dict[str, str]:
    """Return where each broker listens; Apache Kafka is left out where it can't run."""
    brokers: dict[str, str] = {}
    for name in names:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-bench-")))
        if name == "kohort":
            kohort = BrokerProcess(folder, "offsets.topic.replication.factor=1")
            kohort.start()
            stack.callback(kohort.stop)
            brokers[name] = kohort.bootstrap
            continue
        kafka = ApacheKafka(folder)
        try:
            kafka.start()
        except MissingTool as missing:
            print(f"without Apache Kafka: {missing}", file=sys.stderr)
            continue
        stack.callback(kafka.stop)
        brokers[name] = "{}:{}".format(*kafka.address)
    return brokers


def measure(
    cell: Cell, bootstrap: str, options: argparse.Namespace, figures: dict[tuple[Cell, Run], list[float]]
) -> None:
    """Let every client do every task as often as asked for."""
    tasks, words = options.tasks.split(","), [each for each in options.only.split(",") if each]
    count = options.megabytes * 1_000_000 // cell.record_bytes
    runs = [Run("consume", each) for each in CONSUMERS] + [Run("produce", each) for each in PRODUCERS]
    runs = [run for run in runs if run.task in tasks and (not words or any(w in run.client for w in words))]
    source = make_topic(bootstrap, cell.partitions)
    fill(bootstrap, source, cell.partitions, cell.record_bytes, count)
    for _ in range(options.repeats):
        for run in runs:
            topic = source if run.task == "consume" else make_topic(bootstrap, cell.partitions)
            job = {"run": run, "bootstrap": bootstrap, "topic": topic, "count": count, "cell": cell[1:]}
            rate = in_a_process(job)
            figures.setdefault((cell, run), []).append(rate)
            print(f"{cell}: {run.task} {run.client}: {rate:,.0f}/s", file=sys.stderr)


def in_a_process(job: dict[str, object]) -> float:
    """Return the records a second that a process of its own has measured."""
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{job}: {done.stderr[-2000:]}")
    return float(done.stdout)


def child(job: dict[str, object]) -> None:
    task, client = job["run"]  # type: ignore[misc]
    record_bytes, partitions = job["cell"]  # type: ignore[misc]
    run = (CONSUMERS if task == "consume" else PRODUCERS)[client]
    print(run(str(job["bootstrap"]), str(job["topic"]), partitions, record_bytes, job["count"]))


def report(medians: dict[tuple[Cell, Run], float]) -> Iterator[str]:
    """Yield the tables as Markdown: thousands of records a second, and the ratio to each other client."""
    versions = ", ".join(f"{each} {importlib.metadata.version(each)}" for each in PACKAGES)
    yield f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores, {processor()}"
    for task in ("consume", "produce"):
        of_task = {key: rate for key, rate in medians.items() if key[1].task == task}
        clients = list(dict.fromkeys(run.client for _, run in of_task))
        if not clients:
            continue
        yield ""
        yield f"| {task}d, thousand records/s | " + " | ".join(clients) + " |"
        yield "| --- |" + " ---: |" * len(clients)
        for cell in dict.fromkeys(cell for cell, _ in of_task):
            rates = (f"{of_task[cell, Run(task, each)] / 1000:,.0f}" for each in clients)
            yield f"| {cell} | " + " | ".join(rates) + " |"


def processor() -> str:
    """Return the processor's name as Linux tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
