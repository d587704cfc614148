"""Transactions a second, kohort and Apache Kafka in one run, with confluent-kafka's transactional producer.

    python benchmarks/transactions.py [--repeats N] [--seconds N] [--records 1,10,1000]

Each figure is from a fresh process with a fresh transactional id: for so many seconds it commits transactions
of so many records of 100 bytes, spread over four partitions, and an offset of a group with each. The brokers
run side by side and take turns; the median of the repetitions counts. kohort answers when all is on the disk,
and takes part once more without a sync, like Kafka (lax). The table is Markdown, for docs/performance.md.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.differential.apache_kafka import ApacheKafka, MissingTool
from tests.interop.broker_process import BrokerProcess

PARTITIONS = 4
RECORD_BYTES = 100
WARM_UP_SECONDS = 1.0
TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 120
KAFKA_ALONE = ("transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1")
QUICK = {"linger.ms": 0, "retry.backoff.ms": 1}
"""Else a producer waits for 100 ms where the markers of its last transaction are not written yet."""
LAX = "log.flush.interval.messages=9223372036854775807"


def main() -> None:
    """Measure, and print the table."""
    options = arguments()
    if options.child:
        bootstrap, records = options.child.split(",")
        print(rate(bootstrap, int(records), options.seconds))
        return
    sizes = [int(each) for each in options.records.split(",")]
    figures: dict[tuple[str, int], list[float]] = {}
    with contextlib.ExitStack() as stack:
        brokers = started_brokers(stack)
        for _ in range(options.repeats):
            for size in sizes:
                for name, bootstrap in brokers.items():
                    found = in_a_process(bootstrap, size, options.seconds)
                    figures.setdefault((name, size), []).append(found)
                    print(f"{name}, {size} records: {found:,.0f} transactions/s", file=sys.stderr)
    medians = {each: statistics.median(found) for each, found in figures.items()}
    print("\n".join(report(medians, list(brokers), sizes)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--records", default="1,10,1000", help="how many a transaction has")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def started_brokers(stack: contextlib.ExitStack) -> dict[str, str]:
    """Return where each broker listens; Apache Kafka is left out where it can't run."""
    brokers: dict[str, str] = {}
    kafka = ApacheKafka(folder(stack), *KAFKA_ALONE, options=("-Xmx1g",))
    try:
        kafka.start()
    except MissingTool as missing:
        print(f"without Apache Kafka: {missing}", file=sys.stderr)
    else:
        stack.callback(kafka.stop)
        brokers["Kafka"] = "{}:{}".format(*kafka.address)
    for name, settings in (("kohort", ()), ("kohort, lax", (LAX,))):
        kohort = BrokerProcess(folder(stack), *settings)
        kohort.start()
        stack.callback(kohort.stop)
        brokers[name] = kohort.bootstrap
    return brokers


def folder(stack: contextlib.ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-bench-")))


def in_a_process(bootstrap: str, records: int, seconds: float) -> float:
    """Return the transactions a second that a separate process has measured."""
    command = [sys.executable, __file__, "--child", f"{bootstrap},{records}", "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    if done.returncode:
        raise SystemExit(f"{bootstrap}, {records}: {done.stderr[-2000:]}")
    return float(done.stdout)


def rate(bootstrap: str, records: int, seconds: float) -> float:
    """Return how many transactions a second are committed."""
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

    topic, group = f"topic-{uuid.uuid4().hex}", f"group-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = confluent_kafka.admin.NewTopic(topic, PARTITIONS, 1)
    admin.create_topics([new])[topic].result(TIMEOUT_S)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex, **QUICK}
    )
    producer.init_transactions(TIMEOUT_S)
    metadata, value, number = consumer.consumer_group_metadata(), os.urandom(RECORD_BYTES), 0

    def transact() -> None:
        nonlocal number
        number += 1
        producer.begin_transaction()
        for place in range(records):
            producer.produce(topic, value, partition=place % PARTITIONS)
        offset = confluent_kafka.TopicPartition(topic, 0, number)
        producer.send_offsets_to_transaction([offset], metadata, TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)

    warm_s = time.monotonic() + WARM_UP_SECONDS
    while time.monotonic() < warm_s:
        transact()
    began, began_s = number, time.monotonic()
    while time.monotonic() < began_s + seconds:
        transact()
    found = (number - began) / (time.monotonic() - began_s)
    consumer.close()
    return found


def report(medians: dict[tuple[str, int], float], names: list[str], sizes: list[int]) -> Iterator[str]:
    """Yield the table: transactions a second, and each variant of kohort beside Kafka."""
    own = [each for each in names if each != "Kafka"]
    ratios = [f"{each} / Kafka" for each in own] if "Kafka" in names else []
    yield "| transactions/s | " + " | ".join([*names, *ratios]) + " |"
    yield "| --- |" + " ---: |" * (len(names) + len(ratios))
    for size in sizes:
        found = [f"{medians[name, size]:,.0f}" for name in names]
        if ratios:
            found += [f"{medians[name, size] / medians['Kafka', size]:.2f}" for name in own]
        yield f"| of {size:,} record{'s' if size > 1 else ''} | " + " | ".join(found) + " |"


if __name__ == "__main__":
    main()
