"""A real cluster: drivers and spark-submit against a master with two workers, and what executors lack."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kohort.pipeline.ingest.folder import LocalFolder
from kohort.pipeline.ingest.manifest import ManifestLog
from kohort.pipeline.session import address_towards
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool, jars
from tests.spark.ingest_world import ROOT, only_large
from tests.spark.standalone import SPARK_HOME, Standalone, environment
from tests.spark.topics import Topics, numbered

TIMEOUT_S = 200
RECORDS = 2_000
CONF = (
    "spark.executor.memory=512m",
    "spark.executor.cores=1",
    "spark.cores.max=2",
    "spark.scheduler.minRegisteredResourcesRatio=1.0",
    "spark.locality.wait=0s",
    "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def options_of(*settings: str) -> list[str]:
    return [word for each in (*CONF, *settings) for word in ("--conf", each)]


def run(command: list[str], umask: int = -1, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a driver in the repository's folder."""
    around = environment(more)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=ROOT,
        env=around,
        umask=umask,
    )


def ingest(broker: BrokerProcess, topic: str, table: Path, *more: str) -> list[str]:
    """Return the words of the command that ingests a topic."""
    words = ["spark", "ingest", topic, "--to", str(table), "--group", f"group-{topic}", "--json"]
    return [*words, "-b", broker.bootstrap, *more]


@only_large
def test_the_command_line_ingests_on_the_workers(
    cluster: Standalone, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(4)
    topics.fill(topic, numbered(RECORDS, partitions=4))
    words = ingest(broker, topic, tmp_path / "table", "--master", cluster.master, *options_of())
    done = run([sys.executable, "-m", "kohort.cli", *words], PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert (told["rows"], told["rows_in_table"], told["group"]["error"]) == (RECORDS, RECORDS, None)
    assert ManifestLog(LocalFolder(tmp_path / "table")).read().rows == RECORDS
    assert len({each.parent.parent for each in cluster.executors()}) == 2, "both workers had an executor"


@only_large
def test_spark_submit_ingests_into_a_delta_table(
    cluster: Standalone, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    try:
        found = sorted(jars("delta").glob("*.jar"))
    except MissingTool as missing:
        pytest.skip(str(missing))
    topic = topics.make(4)
    topics.fill(topic, numbered(RECORDS, partitions=4))
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, *options_of()]
    submit += ["--jars", ",".join(map(str, found)), "--conf", "spark.driver.host=127.0.0.1"]
    words = ingest(broker, topic, tmp_path / "table", "--format", "delta")
    done = run([*submit, str(ROOT / "cli/kohort/cli/__main__.py"), *words], PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout[done.stdout.index("{") :])
    assert told["rows"] == RECORDS
    values = DeltaTable(str(tmp_path / "table")).to_pandas()["value"]
    assert sorted(int(each) for each in values) == list(range(RECORDS))


@pytest.fixture
def strangers() -> Iterator[list[str]]:
    """Two users that own nothing; skips with a word where they cannot be made."""
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("only root makes users, by useradd")
    names = [f"kohort-{os.getpid()}-{number}" for number in range(2)]
    made: list[str] = []
    try:
        for name in names:
            subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", name], check=True)
            made.append(name)
        reached = subprocess.run([sys.executable, "-c", ""], user=names[0], check=False, cwd="/")
        if reached.returncode:
            pytest.skip(f"other users do not get at {sys.executable}")
        yield names
    finally:
        for name in made:
            subprocess.run(["userdel", name], check=True)


@only_large
def test_workers_have_users_and_folders_of_their_own(
    strangers: list[str], broker: BrokerProcess, topics: Topics
) -> None:
    """As on other hosts: no worker sees what the driver or the other has; they share the table's folder."""
    topic = topics.make(4)
    topics.fill(topic, numbered(RECORDS, partitions=4))
    with tempfile.TemporaryDirectory() as place:  # Pytest's own folders are its user's alone.
        folder = Path(place)
        folder.chmod(0o755)
        table = folder / "shared" / "table"
        table.mkdir(parents=True)
        table.chmod(0o777)
        with Standalone(folder / "cluster", users=strangers) as cluster:
            shared = options_of("spark.hadoop.fs.permissions.umask-mode=000")
            words = ingest(broker, topic, table, "--master", cluster.master, *shared)
            command = [sys.executable, "-m", "kohort.cli", *words]
            done = run(command, umask=0, PYSPARK_PYTHON=sys.executable)
            assert done.returncode == 0, done.stderr[-3000:]
            assert json.loads(done.stdout)["rows_in_table"] == RECORDS
            owners = {each.owner() for each in table.rglob("*.parquet")}
            assert owners == set(strangers), "each of them has written"


@only_large
def test_executors_without_the_package_are_a_clear_error(
    cluster: Standalone, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make()
    topics.fill(topic, numbered(10))
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    words = ingest(broker, topic, tmp_path / "table", "--master", cluster.master, *options_of())
    done = run([sys.executable, "-m", "kohort.cli", *words], PYSPARK_PYTHON=str(bare / "bin" / "python"))
    assert done.returncode == 1
    assert "their Python does not have kohort" in done.stderr
    assert "PYSPARK_PYTHON" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_driver_advertises_its_address_towards_the_master() -> None:
    assert address_towards("127.0.0.1:7077") == "127.0.0.1"
    assert address_towards("no such host:7077") is None
    assert address_towards("127.0.0.1") is None
