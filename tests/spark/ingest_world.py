"""What the tests of ingesting share: a broker with a topic, drivers as processes, what must be true."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kohort.client import LATEST, Admin, NewTopic, Producer, TopicPartition
from kohort.pipeline.ingest import Ingest, Summary, ingest, read_manifest, reconcile
from kohort.pipeline.ingest.checkpoint import COMMITS, OFFSETS, Checkpoint
from kohort.pipeline.ingest.delta_log import LOG, parse_commit
from kohort.pipeline.ingest.folder import LocalFolder
from kohort.pipeline.ingest.formats import DELTA, ICEBERG, PARQUET
from kohort.pipeline.ingest.iceberg_log import NOTE
from kohort.pipeline.ingest.iceberg_table import FOLDER
from kohort.pipeline.ingest.manifest import ManifestLog
from kohort.pipeline.ingest.word import read_word
from kohort.pipeline.options import TIMEOUT_MS
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import Tools
from tests.spark import ingest_driver
from tests.spark.ingest_driver import (
    AFTER_GROUP,
    AFTER_MANIFEST,
    AFTER_WRITE,
    BATCH,
    BEFORE_GROUP,
    BEFORE_WRITE,
    CATALOG,
    DATA,
    DEADLY_OFFSET,
    GO_ON,
    IN_WRITE,
    PATIENCE_S,
    REACHED,
    ROWS,
    WAREHOUSE,
    arrange,
    deadly,
    half_written,
    table_in,
    until,
    wait_in,
)

only_large = pytest.mark.skipif(
    "KOHORT_TEST_LARGE" not in os.environ, reason="only with KOHORT_TEST_LARGE=1 (make spark): it takes long"
)
EACH_FORMAT = (PARQUET, pytest.param(DELTA, marks=only_large), pytest.param(ICEBERG, marks=only_large))
"""What tests of failures are repeated with: the promises are the same."""
TOPIC, GROUP = "flights", "spark"
PARTITIONS = 2
ROOT = Path(__file__).resolve().parents[2]


class State(NamedTuple):
    """What lies on the disk: numbers of batches, and how many folders of files there are."""

    in_table: list[int]
    planned_by_spark: list[int]
    committed_by_spark: list[int]
    folders: int
    half_written: int
    whole: int


STATE_AT = {
    BEFORE_WRITE: State([0], [0, 1], [0], folders=1, half_written=0, whole=1),
    IN_WRITE: State([0], [0, 1], [0], folders=2, half_written=1, whole=1),
    AFTER_WRITE: State([0], [0, 1], [0], folders=2, half_written=0, whole=2),
    AFTER_MANIFEST: State([0, 1], [0, 1], [0], folders=2, half_written=0, whole=2),
}
"""The moments behind these are the mirror's, whom the data does not wait for."""
DELTA_STATE_AT = {
    BEFORE_WRITE: State([0], [0, 1], [0], folders=1, half_written=0, whole=1),
    IN_WRITE: State([0], [0, 1], [0], folders=1, half_written=1, whole=1),
    AFTER_MANIFEST: State([0, 1], [0, 1], [0], folders=1, half_written=0, whole=2),
}
"""Delta writes the files and the version that has them in one call."""


def format_of(request: pytest.FixtureRequest) -> str:
    """Return the format that a fixture is repeated with; skips with a word where its jars are missing."""
    form = str(request.param)
    if form in (DELTA, ICEBERG):
        request.getfixturevalue(form)
    return form


@dataclass
class World:
    """A broker and the folder of one ingest."""

    broker: BrokerProcess
    folder: Path
    topic: str = TOPIC
    group: str = GROUP
    tools: Tools | None = None
    """Kafka's own, where they can be had."""
    written: int = field(default=0)
    format: str = PARQUET

    @property
    def table(self) -> str:
        return table_in(self.folder, self.format)

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

    def stream(self, spark: SparkSession, source: str = "kohort", rows: int = ROWS, **more: str) -> DataFrame:
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

    def ingest(
        self,
        stream: DataFrame,
        checkpoint: str = "",
        *,
        resume: bool = False,
        fail_on_data_loss: bool = True,
    ) -> Summary:
        """Ingest all that is there, in this process."""
        with ingest(
            stream,
            self.table,
            checkpoint or self.checkpoint,
            self.group,
            self.broker.bootstrap,
            resume=resume,
            fail_on_data_loss=fail_on_data_loss,
            format=self.format,
        ) as job:
            job.wait()
            return job.stop()

    def drive(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a driver as a process of its own."""
        command = [sys.executable, "-m", ingest_driver.__name__, str(self.folder)]
        command += ["--bootstrap", self.broker.bootstrap, "--topic", self.topic, "--group", self.group]
        command += ["--format", self.format]
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

    def start_until(
        self,
        moment: str,
        spark: SparkSession,
        monkeypatch: pytest.MonkeyPatch,
        batch: int = BATCH,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Ingest:
        """Return an ingest that runs here, and waits at a moment until `go_on`."""
        arrange(moment, wait_in(self.folder), batch, monkeypatch.setattr)
        stream = self.stream(spark, timeout_ms=str(timeout_ms))
        if moment == IN_WRITE:
            stream = deadly(stream, DEADLY_OFFSET, self.folder, wait_in(self.folder))
        job = ingest(
            stream, self.table, self.checkpoint, self.group, self.broker.bootstrap, format=self.format
        )
        until(lambda: (self.folder / REACHED).exists() or not job.query.isActive)
        assert job.query.exception() is None
        return job

    def go_on(self) -> None:
        """Let an ingest go on that waits."""
        (self.folder / GO_ON).touch()

    def state(self) -> State:
        """Return what lies on the disk."""
        if self.format == DELTA:
            return self._delta_state()
        if self.format == ICEBERG:
            return self._iceberg_state()
        entries = ManifestLog(LocalFolder(Path(self.table))).read().entries
        data = self.folder / DATA
        return State(
            [each.batch_id for each in entries],
            batches_in(Path(self.checkpoint) / OFFSETS),
            batches_in(Path(self.checkpoint) / COMMITS),
            folders=len(list(data.iterdir())),
            half_written=len(half_written(self.folder)),
            whole=len(list(data.glob("*/_SUCCESS"))),
        )

    def iceberg(self) -> Table:
        """Return the Iceberg table, as any reader has it."""
        return load_catalog(CATALOG).load_table(self.table.removeprefix(f"{CATALOG}."))

    def lose_table(self) -> None:
        """Have no table any more."""
        if self.format == ICEBERG:
            load_catalog(CATALOG).drop_table(self.table.removeprefix(f"{CATALOG}."))
        else:
            shutil.rmtree(self.table)

    def restore_older_checkpoint(self, spark: SparkSession) -> None:
        """Ingest two times, put the checkpoint of the first time back, and let the group follow it."""
        self.ingest(self.stream(spark))
        shutil.copytree(self.checkpoint, self.checkpoint + ".old")
        self.produce(ROWS)
        self.ingest(self.stream(spark))
        shutil.rmtree(self.checkpoint)
        Path(self.checkpoint + ".old").rename(self.checkpoint)
        self.produce(ROWS)  # The batch of the same number has other offsets now.
        reconcile(self.checkpoint, self.group, self.broker.bootstrap, execute=True, backwards=True)

    def _iceberg_state(self) -> State:
        """Return what lies on the disk of an Iceberg table: a folder for each batch, as without it."""
        word = read_word(self.iceberg().properties.get(NOTE))
        folders = list((self.folder / WAREHOUSE).glob(f"*/*/{FOLDER}*"))
        return State(
            [] if word is None else list(range(word.batch_id + 1)),
            batches_in(Path(self.checkpoint) / OFFSETS),
            batches_in(Path(self.checkpoint) / COMMITS),
            folders=len(folders),
            half_written=len(half_written(self.folder)),
            whole=sum((each / "_SUCCESS").exists() for each in folders),
        )

    def _delta_state(self) -> State:
        """Return what lies on the disk of a Delta table, whose files are all in one folder."""
        log = Path(self.table) / LOG
        puts = [parse_commit(int(each.stem), each.read_text()) for each in sorted(log.glob("*.json"))]
        return State(
            [each.word.batch_id for each in puts if each is not None],
            batches_in(Path(self.checkpoint) / OFFSETS),
            batches_in(Path(self.checkpoint) / COMMITS),
            folders=1,
            half_written=min(len(half_written(self.folder)), 1),  # Files have their names at once.
            whole=len(puts),
        )

    def assert_it_is(self, moment: str) -> None:
        """What lies on the disk, and what the group has, is what it has to be at that moment."""
        self.assert_group_is_nowhere_ahead()
        if moment in STATE_AT:
            assert self.state() == (DELTA_STATE_AT if self.format == DELTA else STATE_AT)[moment]
            return
        checkpoint = Checkpoint(LocalFolder(Path(self.checkpoint)))
        told = [
            batch
            for batch in self.state().committed_by_spark
            if checkpoint.ends_of(batch) == self.committed()
        ]
        assert len(told) == 1
        if moment == BEFORE_GROUP:
            assert told[0] < self.state().committed_by_spark[-1]
        else:
            assert moment == AFTER_GROUP
            assert told[0] >= BATCH

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the table."""
        if self.format == DELTA:
            return spark.read.format(DELTA).load(self.table)
        if self.format == ICEBERG:
            return spark.createDataFrame(self.iceberg().scan().to_arrow())
        return read_manifest(spark, self.table)

    def values(self, spark: SparkSession) -> list[int]:
        """Return the numbers in the table, sorted."""
        rows = self.frame(spark).select(F.col("value").cast("string").cast("int").alias("number")).collect()
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

    def finish(self, spark: SparkSession) -> None:
        """Ingest what is left, here, and look at what has come of all."""
        self.assert_group_is_nowhere_ahead()
        self.ingest(self.stream(spark))
        self.assert_nothing_is_lost_or_doubled(spark)
        self.assert_group_is_at_the_end()

    def assert_group_is_nowhere_ahead(self) -> None:
        """The checkpoint is the truth, whatever was killed."""
        progress = Checkpoint(LocalFolder(Path(self.checkpoint))).progress()
        for partition, offset in self.committed().items():
            assert progress is not None
            assert offset <= progress.offsets[partition]

    def assert_group_is_at_the_end(self) -> None:
        """Nobody sees lag: not the broker, not `kohort groups describe`, not Kafka's own tool."""
        assert self.committed() == self.ends()
        assert [row["lag"] for row in self.described()] == [0] * PARTITIONS
        if self.tools is not None:
            assert self.lag_by_kafkas_tool() == [0] * PARTITIONS

    def lag_by_kafkas_tool(self) -> list[int]:
        """Return the lag of each partition as kafka-consumer-groups.sh prints it; skips where it is not."""
        if self.tools is None:
            pytest.skip("Kafka's own tools take Java and Maven")
        done = self.tools.run(
            "kafka-consumer-groups",
            *("--bootstrap-server", self.broker.bootstrap, "--describe", "--group", self.group),
        )
        header, *rows = [row for row in done.rows() if row[0] in {"GROUP", self.group}]
        return [int(row[header.index("LAG")]) for row in rows]

    def described(self) -> list[dict[str, int]]:
        """Return what `kohort groups describe` says of the group's offsets."""
        command = [sys.executable, "-m", "kohort.cli", "groups", "describe", self.group, "--json"]
        done = subprocess.run(
            [*command, "-b", self.broker.bootstrap], capture_output=True, text=True, check=True, timeout=30
        )
        (group,) = json.loads(done.stdout)
        offsets: list[dict[str, int]] = group["offsets"]
        return offsets


def own_world(broker: BrokerProcess, folder: Path, tools: Tools | None, form: str) -> World:
    """Return the world of one test on a broker that others use too: its topic is there, without records."""
    own = f"-{folder.name}"
    world = World(broker, folder, TOPIC + own, GROUP + own, tools, format=form)
    world.make_topic()
    return world


def batches_in(folder: Path) -> list[int]:
    """Return the numbers of the batches that a checkpoint's folder has, sorted."""
    return sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit())
