"""Python's Kafka clients side by side: records a second, produced and consumed, on the same broker.

    python benchmarks/clients.py [--repeats N] [--megabytes N] [--only WORDS] [--sizes 100,~100,1024] ...

Every figure is from a separate process. The clients take turns, and the median of the repetitions counts.
All have the same settings: acks=all, linger 5 ms, batches of 16,384 bytes, no compression; consumers read
assigned partitions from their beginning and read every value. `~100` are values of 50 to 150 bytes. Apache
Kafka takes part where there is Java. The tables are Markdown, for docs/performance.md: records a second, and
the CPU time that the client's process took for a record, which other programs on the machine falsify less.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.parts.client_runs import CONSUMERS, PRODUCERS, Job, Pace, fill, make_topic

from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.interop.broker_process import BrokerProcess

PACKAGES = ("confluent-kafka", "aiokafka", "kafka-python", "pyarrow")
RUN_TIMEOUT_S = 120
WHOLE = (
    # The record counts are multiples of it: confluent-kafka's `consume` waits for whole 500s, to the end.
    4_000
)


IN_BATCHES = tuple(each for each in CONSUMERS if "loop" not in each and each != "confluent-kafka poll")
ONE_BY_ONE = tuple(each for each in CONSUMERS if each not in IN_BATCHES)
TABLES = (
    ("Consumed in batches", "consume", IN_BATCHES),
    ("Consumed one by one", "consume", ONE_BY_ONE),
    ("Produced", "produce", tuple(PRODUCERS)),
)
UNITS: dict[str, Callable[[Pace], float]] = {
    "thousand records/s": lambda pace: pace.records_per_second / 1000,
    "ns of CPU per record": lambda pace: pace.cpu_ns,
}
COMPARED = (
    ("consume", "kohort poll", "aiokafka getmany"),
    ("consume", "kohort poll", "kafka-python poll"),
    ("consume", "kohort poll", "confluent-kafka consume"),
    ("consume", "kohort aio poll", "aiokafka getmany"),
    ("consume", "kohort poll_arrow", "confluent-kafka consume"),
    ("consume", "kohort loop", "kafka-python loop"),
    ("consume", "kohort loop", "confluent-kafka poll"),
    ("consume", "kohort aio loop", "aiokafka loop"),
    ("produce", "kohort", "kafka-python"),
    ("produce", "kohort", "confluent-kafka"),
    ("produce", "kohort", "aiokafka"),
    ("produce", "kohort aio", "aiokafka"),
)


class Cell(NamedTuple):
    """The settings of one table row; the size as on the command line."""

    broker: str
    size: str
    partitions: int

    def __str__(self) -> str:
        plural = "s" if self.partitions > 1 else ""
        size = int(self.size.lstrip("~"))
        sizes = f"{size // 2:,} to {size * 3 // 2:,} B" if self.size.startswith("~") else f"{size:,} B"
        return f"{self.broker}, {sizes}, {self.partitions} partition{plural}"

    def job(self, bootstrap: str, megabytes: int) -> Job:
        """Return the work on a new topic."""
        record_bytes = int(self.size.lstrip("~"))
        count = megabytes * 1_000_000 // record_bytes // WHOLE * WHOLE
        topic = make_topic(bootstrap, self.partitions)
        return Job(bootstrap, topic, self.partitions, record_bytes, self.size.startswith("~"), count)


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
    figures: dict[tuple[Cell, Run], list[Pace]] = {}
    with contextlib.ExitStack() as stack:
        brokers = started_brokers(stack, options.brokers.split(","))
        for cell in cells(list(brokers), options):
            measure(cell, brokers[cell.broker], options, figures)
    print("\n".join(report({each: median(found) for each, found in figures.items()})))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=20, help="how much is read or written each time")
    parser.add_argument("--brokers", default="kohort,Kafka")
    parser.add_argument("--sizes", default="100,~100,1024")
    parser.add_argument("--partitions", default="1,8")
    parser.add_argument("--tasks", default="consume,produce")
    parser.add_argument("--only", default="", help="clients whose name has one of these words, with commas")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def cells(brokers: list[str], options: argparse.Namespace) -> Iterator[Cell]:
    for broker in brokers:
        for size in options.sizes.split(","):
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
    cell: Cell, bootstrap: str, options: argparse.Namespace, figures: dict[tuple[Cell, Run], list[Pace]]
) -> None:
    """Let every client do every task as often as asked for."""
    tasks, words = options.tasks.split(","), [each for each in options.only.split(",") if each]
    runs = [Run("consume", each) for each in CONSUMERS] + [Run("produce", each) for each in PRODUCERS]
    runs = [run for run in runs if run.task in tasks and (not words or any(w in run.client for w in words))]
    source = cell.job(bootstrap, options.megabytes)
    if "consume" in tasks:
        fill(source)
    for _ in range(options.repeats):
        for run in runs:
            job = source if run.task == "consume" else cell.job(bootstrap, options.megabytes)
            pace = in_a_process(run, job)
            figures.setdefault((cell, run), []).append(pace)
            told = f"{pace.records_per_second:,.0f}/s, {pace.cpu_ns:,.0f} ns of CPU each"
            print(f"{cell}: {run.task} {run.client}: {told}", file=sys.stderr)


def median(paces: list[Pace]) -> Pace:
    """Return the medians of the two figures, each by itself."""
    return Pace(*(statistics.median(each) for each in zip(*paces, strict=True)))


def in_a_process(run: Run, job: Job) -> Pace:
    """Return the rate that a separate process has measured."""
    command = [sys.executable, __file__, "--child", json.dumps([run, job])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{run}, {job}: {done.stderr[-2000:]}")
    return Pace(*json.loads(done.stdout))


def child(options: list[list[object]]) -> None:
    """Do the work of one client, in a separate process."""
    task, client = options[0]
    run = (CONSUMERS if task == "consume" else PRODUCERS)[str(client)]
    print(json.dumps(run(Job(*options[1]))))  # type: ignore[arg-type]  # As the parent has made it.


def report(medians: dict[tuple[Cell, Run], Pace]) -> Iterator[str]:
    """Yield the tables as Markdown: the result of each client, and how kohort compares."""
    versions = ", ".join(f"{each} {importlib.metadata.version(each)}" for each in PACKAGES)
    yield f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores, {processor()}."
    for title, task, clients in TABLES:
        of_task = {
            key: pace for key, pace in medians.items() if key[1].task == task and key[1].client in clients
        }
        present = [each for each in clients if any(run.client == each for _, run in of_task)]
        if not present:
            continue
        for unit, figure in UNITS.items():
            yield ""
            yield f"| {title}, {unit} | " + " | ".join(present) + " |"
            yield "| --- |" + " ---: |" * len(present)
            for cell in dict.fromkeys(cell for cell, _ in of_task):
                figures = [figure(of_task[cell, Run(task, each)]) for each in present]
                yield f"| {cell} | " + " | ".join(f"{each:,.0f}" for each in figures) + " |"
    yield ""
    yield from ratios(medians)


def ratios(medians: dict[tuple[Cell, Run], Pace]) -> Iterator[str]:
    """Yield the ratio of kohort to another client at the same work: the smallest, the largest."""
    yield "| kohort compared | records/s, least | most | records per CPU second, least | most |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for task, ours, theirs in COMPARED:
        pairs = [
            (medians[cell, Run(task, ours)], medians[cell, Run(task, theirs)])
            for cell in dict.fromkeys(cell for cell, _ in medians)
            if (cell, Run(task, ours)) in medians and (cell, Run(task, theirs)) in medians
        ]
        if pairs:
            by_clock = [our.records_per_second / their.records_per_second for our, their in pairs]
            by_cpu = [their.cpu_ns / our.cpu_ns for our, their in pairs]
            figures = (min(by_clock), max(by_clock), min(by_cpu), max(by_cpu))
            yield f"| {task}: {ours} / {theirs} | " + " | ".join(f"{each:.2f}" for each in figures) + " |"


def processor() -> str:
    """Return the name of the processor from Linux."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
