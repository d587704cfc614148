"""How fast Spark reads topics into rows: `kohort` and `kohort-segments` beside Spark's own Kafka connector.

    python benchmarks/spark.py                    # ratios, 100 bytes and 1 KiB, plain and zstd
    python benchmarks/spark.py --short            # two of these, smaller, and the ingest: a few minutes
    python benchmarks/spark.py --ingest           # how long `kohort spark ingest` takes, from start to end
    python benchmarks/spark.py --rows 10000000    # many records end to end, with the memory they take

The readers take turns on the same topics, into a sink that drops the rows. CPU is that of the session's
JVM and its Python workers, and, separately, of the broker, which serves all readers except the one of files.
The connector is tuned as the others are: 20,000 records per poll, 8 MiB per fetch.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import DataFrame, SparkSession

from kohort.client import Admin, NewTopic, TopicPartition
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.servers import Servers
from kohort.pipeline.session import local_session
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.protocol.records import Compression, build_batch
from kohort.protocol.schema import ZERO_UUID
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool, jars

PARTITIONS = 4
BATCH_BYTES = 16 << 10  # What Apache Kafka's producer fills by default.
FETCH_BYTES = 8 << 20
INGESTED_ROWS = 50_000
INGESTS = 3
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """A topic for the readers."""

    record_bytes: int
    compression: Compression
    rows: int

    @property
    def topic(self) -> str:
        return f"rows-{self.record_bytes}-{self.compression.name.lower()}"


@dataclass(frozen=True)
class Spent:
    wall_s: float
    cpu_s: float
    broker_s: float

    @property
    def total_s(self) -> float:
        """All CPU that the rows took, the broker's too."""
        return self.cpu_s + self.broker_s


def descendants(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Yield a process and all below it, each with the fields of its `stat` from the state on."""
    fields: dict[int, list[str]] = {}
    for each in filter(str.isdecimal, os.listdir("/proc")):
        try:
            fields[int(each)] = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended meanwhile.
    found = [pid]
    while found:
        one = found.pop()
        yield one, fields.get(one, ["Z", *["0"] * 40])
        found += [each for each, told in fields.items() if int(told[1]) == one]


def tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and all that it has started, ended ones too."""
    return sum(sum(map(int, told[11:15])) for _, told in descendants(pid)) / TICKS_PER_S


def resident_bytes(pid: int) -> tuple[int, int]:
    """Return the memory of a process, and that of all below it."""
    own, *others = (int(told[21]) * os.sysconf("SC_PAGE_SIZE") for _, told in descendants(pid))
    return own, sum(others)


def fill(bootstrap: str, load: Load) -> None:
    """Write the rows of a topic: the same batch again and again, which makes no difference to a reader."""
    value = os.urandom(load.record_bytes // 2).hex().encode()
    per_batch = max(1, BATCH_BYTES // (load.record_bytes + 16))
    now = time.time_ns() // 1_000_000
    records = [
        (now + n // 8, b"key-%06d" % n, value[n % 50 :] + value[: n % 50], ()) for n in range(per_batch)
    ]
    batch = build_batch(records, compression=load.compression)
    together = max(1, (900 << 10) // len(batch))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(
            NewTopic(load.topic, partitions=PARTITIONS, configs={"max.message.bytes": "1048576"})
        )
    with Brokers(Servers(bootstrap), 60_000) as brokers:
        for number in range(-(-load.rows // (per_batch * together))):
            part = PartitionProduceData(index=number % PARTITIONS, records=batch)
            request = ProduceRequest(
                acks=1,
                timeout_ms=30_000,
                topic_data=(TopicProduceData(name=load.topic, topic_id=ZERO_UUID, partition_data=(part,)),),
            )
            leader_of = TopicPartition(load.topic, number % PARTITIONS)
            sent = [brokers.send(leader_of, request, ProduceResponse, highest=12) for _ in range(together)]
            for each in sent:
                answer = brokers.receive(each).responses[0].partition_responses[0]
                assert not answer.error_code, answer


def read_connector(spark: SparkSession, bootstrap: str, _data: Path, load: Load) -> DataFrame:
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", load.topic)
        .option("kafka.max.poll.records", "20000")
        .option("kafka.fetch.max.bytes", str(FETCH_BYTES))
        .option("kafka.max.partition.fetch.bytes", str(FETCH_BYTES))
        .load()
        .select("key", "value", "topic", "partition", "offset", "timestamp")
    )


def read_kohort(spark: SparkSession, bootstrap: str, _data: Path, load: Load) -> DataFrame:
    read = spark.read.format("kohort").option("bootstrap", bootstrap).option("topics", load.topic)
    return read.option("fetch_bytes", str(FETCH_BYTES)).load()


def read_segments(spark: SparkSession, _bootstrap: str, data: Path, load: Load) -> DataFrame:
    return spark.read.format("kohort-segments").option("path", str(data)).option("topics", load.topic).load()


Reader = Callable[[SparkSession, str, Path, Load], DataFrame]
READERS: dict[str, Reader] = {"connector": read_connector, "kohort": read_kohort, "segments": read_segments}


class Bench:
    """A broker and a session."""

    def __init__(self, broker: BrokerProcess, spark: SparkSession) -> None:
        self.broker = broker
        self.spark = spark
        assert spark._jvm is not None
        self.jvm_pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())

    def run(self, reader: Reader, load: Load) -> Spent:
        assert self.spark._jvm is not None
        self.spark._jvm.java.lang.System.gc()  # What others have left is not this one's to clear.
        begun = time.perf_counter(), tree_cpu_s(self.jvm_pid), tree_cpu_s(self.broker.pid)
        frame = reader(self.spark, self.broker.bootstrap, self.broker.data, load)
        frame.write.format("noop").mode("overwrite").save()
        return Spent(
            time.perf_counter() - begun[0],
            tree_cpu_s(self.jvm_pid) - begun[1],
            tree_cpu_s(self.broker.pid) - begun[2],
        )


@contextmanager
def bench(settings: dict[str, str]) -> Iterator[Bench]:
    """Give a broker and a session with the connector's jars. Raises: MissingTool."""
    connector = sorted(jars("spark").glob("*.jar"))
    with tempfile.TemporaryDirectory(prefix="kohort-bench-") as folder:
        broker = BrokerProcess(Path(folder))
        broker.start()
        spark = local_session("bench", memory="2g", jars=connector, settings=settings)
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield Bench(broker, spark)
        finally:
            spark.stop()
            broker.stop()


def compare(load: Load, rounds: int, warm_up: int, names: list[str], found: Bench) -> None:
    """Print the result of each reader for one topic, and its ratio to the connector."""
    fill(found.broker.bootstrap, load)
    spent: dict[str, list[Spent]] = {name: [] for name in names}
    for number in range(rounds + warm_up):
        for name in names:
            once = found.run(READERS[name], load)
            if number >= warm_up:
                spent[name].append(once)
    print(f"{load.topic}: {load.rows:,} rows or some more, median of {rounds}")
    for name, runs in spent.items():
        wall, cpu, at_broker = (
            statistics.median(getattr(each, field) for each in runs)
            for field in ("wall_s", "cpu_s", "broker_s")
        )
        line = f"  {name:10} wall {wall:6.2f} s  {load.rows / wall / 1000:7.0f} k rows/s  cpu {cpu:6.2f} s"
        line += f"  broker {at_broker:5.2f} s"
        for other, others in spent.items():
            if other != name and (other == "connector" or name == "segments"):
                wall, cpu, total = (ratio(others, runs, field) for field in ("wall_s", "cpu_s", "total_s"))
                line += f"  {other} / it: wall {wall:.2f} cpu {cpu:.2f} with broker {total:.2f}"
        print(line, flush=True)


def ratio(others: list[Spent], runs: list[Spent], field: str) -> float:
    """Return how many times as much the others have spent, round by round: the median."""
    rounds = zip(others, runs, strict=True)
    return statistics.median(float(getattr(other, field) / getattr(it, field)) for other, it in rounds)


def stream_all(rows: int, found: Bench, folder: Path) -> None:
    """Print the memory while so many records go from a topic through a stream into Parquet files."""
    load = Load(100, Compression.NONE, rows)
    began = time.perf_counter()
    fill(found.broker.bootstrap, load)
    print(f"{rows:,} records of 100 bytes written in {time.perf_counter() - began:.0f} s", flush=True)
    read = found.spark.readStream.format("kohort").option("max_rows_per_trigger", str(rows // 20))
    frame = read.options(bootstrap=found.broker.bootstrap, topics=load.topic, starting="earliest").load()
    writer = frame.writeStream.format("parquet").trigger(availableNow=True)
    began = time.perf_counter()
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "table"))
    done, seen = 0, -1
    while query.isActive or query.lastProgress["batchId"] != seen:
        progress = query.lastProgress
        if progress is None or progress["batchId"] == seen:
            time.sleep(0.05)  # The progress of a query can only be polled.
            continue
        seen, done = progress["batchId"], done + progress["numInputRows"]
        jvm, python = resident_bytes(found.jvm_pid)
        broker, _ = resident_bytes(found.broker.pid)
        told = f"  {done:>11,} rows after {time.perf_counter() - began:5.1f} s, resident: "
        print(
            told + f"jvm {jvm >> 20} MB, its Python {python >> 20} MB, broker {broker >> 20} MB", flush=True
        )
    table = found.spark.read.parquet(str(folder / "table"))
    distinct = table.select("partition", "offset").distinct().count()
    print(f"the table has {table.count():,} rows of {distinct:,} offsets")


def ingest_all(found: Bench, rounds: int, folder: Path) -> None:
    """Print how long the command takes that ingests a topic into a table, Spark's start and end included."""
    delta = ",".join(str(each) for each in sorted(jars("delta").glob("*.jar")))
    loads = [Load(100, Compression.GZIP, 0), Load(100, Compression.LZ4, INGESTED_ROWS)]
    for load in loads:
        fill(found.broker.bootstrap, load)
    for form in ("parquet", "delta"):
        for load in loads:
            told = [
                ingest_once(found, load, form, delta, folder / f"{form}-{load.rows}-{n}")
                for n in range(rounds)
            ]
            wall = statistics.median(seconds for seconds, _ in told)
            longest = max(seconds for seconds, _ in told)
            print(
                f"ingest into {form:8} {told[0][1]:>7,} rows  wall {wall:6.2f} s,"
                f" the longest {longest:6.2f} s of {rounds}",
                flush=True,
            )


def ingest_once(found: Bench, load: Load, form: str, delta: str, folder: Path) -> tuple[float, int]:
    """Return the seconds and the rows of one command."""
    words = ["spark", "ingest", load.topic, "--to", str(folder / "table"), "--group", folder.name, "--json"]
    words += ["--format", form, "-b", found.broker.bootstrap]
    words += ["--conf", f"spark.jars={delta}"] if form == "delta" else []
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "kohort.cli", *words], capture_output=True, text=True, check=True
    )
    return time.perf_counter() - began, int(json.loads(done.stdout)["rows"])


def main() -> None:
    """Run the benchmarks of the arguments."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="stream so many records into a table instead")
    parser.add_argument("--ingest", action="store_true", help="time `kohort spark ingest` instead")
    parser.add_argument("--short", action="store_true", help="less of each, in a few minutes")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--readers", default=",".join(READERS))
    parser.add_argument("--loads", default="100-none,100-zstd,1024-none,1024-zstd")
    options = parser.parse_args()
    if options.short:
        options.rounds, options.scale, options.loads = 3, 0.2, "100-none,1024-zstd"
    try:
        with bench({}) as found, tempfile.TemporaryDirectory(prefix="kohort-table-") as folder:
            if options.rows:
                return stream_all(options.rows, found, Path(folder))
            if options.ingest or options.short:
                ingest_all(found, INGESTS, Path(folder))
            if options.ingest:
                return None
            warm_up = 4  # The JVM compiles hot code: later readers would profit from the first ones.
            for each in options.loads.split(","):
                size, codec = each.split("-")
                rows = int((6_000_000 if int(size) < 500 else 1_200_000) * options.scale)
                load = Load(int(size), Compression[codec.upper()], rows)
                compare(load, options.rounds, warm_up, options.readers.split(","), found)
                warm_up = 1
    except MissingTool as missing:
        print(f"not measured: {missing}")


if __name__ == "__main__":
    main()
