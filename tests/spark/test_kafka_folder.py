"""Apache Kafka's transactions, over the network and from its own data folder: needs Java and Maven."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
import pytest
from pyspark.sql import DataFrame, SparkSession

from kohort.client import Admin, NewTopic
from kohort.pipeline.audit import audit
from tests.differential import apache_kafka
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import Tools
from tests.spark.ingest_world import World, only_large
from tests.spark.topics import values

Load = Callable[..., DataFrame]

pytestmark = only_large
SETTINGS = ("transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1")
FLUSH_S = 30.0
PARTITIONS = 2
ROUNDS, RECORDS = 20, 100
PADDING = b"x" * 2_000
SEGMENT_BYTES = 1 << 20  # Kafka takes no less.
NEVER_COMMITTED = 1_000_000
"""Numbers from here on were written in transactions that were aborted, or are open."""


@dataclass
class Written:
    """What a topic holds, by what became of it."""

    bootstrap: str
    topic: str
    committed: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    still_open: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def kafka_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kafka")


@pytest.fixture(scope="module")
def kafka(kafka_folder: Path) -> Iterator[str]:
    """Where a broker of Apache Kafka listens."""
    with apache_kafka.running(kafka_folder, *SETTINGS) as bootstrap:
        yield bootstrap


def transactional(kafka: str, codec: str = "none") -> confluent_kafka.Producer:
    own = {"transactional.id": uuid.uuid4().hex, "compression.type": codec}
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka, **own})
    producer.init_transactions(FLUSH_S)
    return producer


def write(producer: confluent_kafka.Producer, topic: str, numbers: Sequence[int]) -> None:
    """Write each number, to the partitions in turn; return when the broker has them."""
    for number in numbers:
        producer.produce(topic, b"%d" % number, PADDING, number % PARTITIONS)
    assert producer.flush(FLUSH_S) == 0


@pytest.fixture(scope="module")
def open_producer(kafka: str) -> confluent_kafka.Producer:
    """Whose transaction stays open until a test ends it."""
    return transactional(kafka)


@pytest.fixture(scope="module")
def written(kafka: str, open_producer: confluent_kafka.Producer) -> Written:
    """A topic of several segments: plain records, and transactions of all fates that overlap each other."""
    found = Written(kafka, f"topic-{uuid.uuid4().hex[:8]}")
    with Admin(bootstrap_servers=kafka) as admin:
        configs = {"segment.bytes": str(SEGMENT_BYTES)}
        admin.create_topics(NewTopic(found.topic, PARTITIONS, configs=configs))
    plain = confluent_kafka.Producer({"bootstrap.servers": kafka})
    one, two = transactional(kafka), transactional(kafka, "zstd")
    for first in range(0, ROUNDS * RECORDS, RECORDS):
        good, none = (range(first + at, first + RECORDS, 3) for at in range(2))
        bad = [NEVER_COMMITTED + number for number in range(first + 2, first + RECORDS, 3)]
        one.begin_transaction()
        two.begin_transaction()
        write(one, found.topic, bad[: len(bad) // 2])
        write(two, found.topic, good)
        write(plain, found.topic, none)
        write(one, found.topic, bad[len(bad) // 2 :])
        two.commit_transaction(FLUSH_S)
        one.abort_transaction(FLUSH_S)
        found.committed += [*good, *none]
        found.aborted += bad
    found.still_open = [NEVER_COMMITTED + ROUNDS * RECORDS + number for number in range(10)]
    open_producer.begin_transaction()
    write(open_producer, found.topic, found.still_open)
    behind = [ROUNDS * RECORDS + number for number in range(10)]
    write(plain, found.topic, behind)  # Committed, and nobody may read it before the open one has ended.
    found.still_open += behind
    return found


@pytest.fixture(params=["kohort", "kohort-segments", "kohort-segments-python"])
def load(request: pytest.FixtureRequest, spark: SparkSession, kafka: str, kafka_folder: Path) -> Load:
    """Return a function that reads a topic from the broker, or from its data folder."""
    is_broker = request.param == "kohort"
    place = {"bootstrap": kafka} if is_broker else {"path": str(kafka_folder / "logs")}

    def read(topic: str, **options: str) -> DataFrame:
        reader = spark.read.format(request.param).options(topics=topic, **place)
        return reader.options(**options).load()

    return read


def test_aborted_and_open_transactions_are_not_read_by_default(load: Load, written: Written) -> None:
    assert values(load(written.topic)) == sorted(written.committed)
    assert values(load(written.topic, isolation_level="read_committed")) == sorted(written.committed)


def test_read_uncommitted_reads_all_but_the_markers(load: Load, written: Written) -> None:
    everything = sorted(written.committed + written.aborted + written.still_open)
    assert values(load(written.topic, isolation_level="read_uncommitted")) == everything


def test_every_segment_is_a_task_of_its_own(
    spark: SparkSession, kafka_folder: Path, written: Written
) -> None:
    logs = list((kafka_folder / "logs").glob(f"{written.topic}-*/*.log"))
    assert len(logs) > PARTITIONS, "the topic has more than one segment in each partition"
    options = {"path": str(kafka_folder / "logs"), "topics": written.topic}
    frame = spark.read.format("kohort-segments").options(**options).load()
    assert frame.rdd.getNumPartitions() == len(logs)


def test_the_audit_finds_no_problem_in_kafkas_files(
    spark: SparkSession, kafka_folder: Path, written: Written
) -> None:
    found = audit(spark, str(kafka_folder / "logs"), topics=[written.topic], deep=True)
    assert found.problem_count == 0, found.problems.collect()


def test_a_stream_waits_for_the_end_of_a_transaction_and_the_group_lag_is_right(
    spark: SparkSession,
    written: Written,
    open_producer: confluent_kafka.Producer,
    tools: Tools | None,
    tmp_path: Path,
) -> None:
    """The last test here: it ends the transaction."""
    there_already = BrokerProcess(tmp_path)
    there_already.bootstrap = written.bootstrap
    world = World(there_already, tmp_path, topic=written.topic, tools=tools)
    assert world.ingest(world.stream(spark)).rows == len(written.committed)
    assert world.values(spark) == sorted(written.committed)
    assert world.committed() != world.ends()
    open_producer.abort_transaction(FLUSH_S)
    behind = [number for number in written.still_open if number < NEVER_COMMITTED]
    assert world.ingest(world.stream(spark)).rows == len(behind)
    assert world.values(spark) == sorted(written.committed + behind)
    world.assert_group_is_at_the_end()
