"""What the tests of ingesting share: a broker with a topic, drivers as processes, what must be true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kohort.client import LATEST, Admin, NewTopic, Producer, TopicPartition
from kohort.pipeline.ingest import Summary, ingest, read_manifest
from kohort.pipeline.ingest.checkpoint import Checkpoint
from kohort.pipeline.ingest.folder import LocalFolder
from tests.interop.broker_process import BrokerProcess
from tests.spark import ingest_driver

only_large = pytest.mark.skipif(
    "KOHORT_TEST_LARGE" not in os.environ, reason="only with KOHORT_TEST_LARGE=1 (make spark): it takes long"
)
TOPIC, GROUP = "flights", "spark"
PARTITIONS = 2
PATIENCE_S = 180.0
ROOT = Path(__file__).resolve().parents[2]


def until(happened: Callable[[], bool]) -> None:
    """Return when it has happened."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@dataclass
class World:
    """A broker and the folder of one ingest."""

    broker: BrokerProcess
    folder: Path
    topic: str = TOPIC
    group: str = GROUP
    written: int = field(default=0)

    @property
    def table(self) -> str:
        return str(self.folder / "table")

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    def admin(self) -> Admin:
        return Admin(bootstrap_servers=self.broker.bootstrap)

    def make_topic(self, **configs: str) -> None:
        with self.admin() as admin:
            admin.create_topics(NewTopic(self.topic, PARTITIONS, configs=configs))

    def produce(self, records: int) -> None:
        """Write so many records with the numbers that come next, to the partitions in turn."""
        with Producer(bootstrap_servers=self.broker.bootstrap) as producer:
            for number in range(self.written, self.written + records):
                producer.send(self.topic, value=str(number).encode(), partition=number % PARTITIONS)
            producer.flush()
        self.written += records

    def stream(self, spark: SparkSession, source: str = "kohort", rows: int = 200, **more: str) -> DataFrame:
        """Return the topic as a stream of either source, from its beginning."""
        reader = spark.readStream.format(source)
        if source == "kafka":
            reader = reader.option("kafka.bootstrap.servers", self.broker.bootstrap).option(
                "subscribe", self.topic
            )
            reader = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows)
        else:
            reader = reader.option("bootstrap", self.broker.bootstrap).option("topics", self.topic)
            reader = reader.option("starting", "earliest").option("max_rows_per_trigger", rows)
        return reader.options(**more).load()

    def ingest(self, stream: DataFrame, checkpoint: str = "", **more: bool) -> Summary:
        """Ingest all that is there, in this process."""
        with ingest(
            stream, self.table, checkpoint or self.checkpoint, self.group, self.broker.bootstrap, **more
        ) as job:
            job.wait()
            return job.stop()

    def drive(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a driver as a process of its own."""
        command = [sys.executable, "-m", ingest_driver.__name__, str(self.folder)]
        command += ["--bootstrap", self.broker.bootstrap, "--topic", self.topic, "--group", self.group]
        with (self.folder / "driver.log").open("a") as log:
            return subprocess.Popen(
                [*command, *arguments],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def kill_at(self, moment: str, *arguments: str) -> None:
        """Run a driver that is killed at a moment, and see that it was."""
        driver = self.drive("--at", moment, *arguments)
        driver.communicate(timeout=PATIENCE_S)
        assert driver.returncode == -signal.SIGKILL, (self.folder / "driver.log").read_text()[-3000:]

    def values(self, spark: SparkSession) -> list[int]:
        """Return the numbers in the table, sorted."""
        frame = read_manifest(spark, self.table)
        rows = frame.select(F.col("value").cast("string").cast("int").alias("number")).collect()
        return sorted(row["number"] for row in rows)

    def committed(self) -> dict[TopicPartition, int]:
        with self.admin() as admin:
            return {each: value.offset for each, value in admin.list_group_offsets(self.group).items()}

    def ends(self) -> dict[TopicPartition, int]:
        partitions = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        with self.admin() as admin:
            found = admin.list_offsets(dict.fromkeys(partitions, LATEST))
        return {each: value.offset for each, value in found.items()}

    def assert_nothing_is_lost_or_doubled(self, spark: SparkSession) -> None:
        assert self.values(spark) == list(range(self.written))

    def assert_group_is_nowhere_ahead(self) -> None:
        """The checkpoint is the truth, whatever was killed."""
        progress = Checkpoint(LocalFolder(Path(self.checkpoint))).progress()
        for partition, offset in self.committed().items():
            assert progress is not None
            assert offset <= progress.offsets[partition]

    def assert_group_is_at_the_end(self) -> None:
        assert self.committed() == self.ends()
        rows = self.described()
        assert sum(row["lag"] for row in rows) == 0
        assert len(rows) == PARTITIONS

    def described(self) -> list[dict[str, int]]:
        """Return what `kohort groups describe` says of the group's offsets."""
        command = [sys.executable, "-m", "kohort.cli", "groups", "describe", self.group, "--json"]
        done = subprocess.run(
            [*command, "-b", self.broker.bootstrap], capture_output=True, text=True, check=True, timeout=30
        )
        (group,) = json.loads(done.stdout)
        offsets: list[dict[str, int]] = group["offsets"]
        return offsets
