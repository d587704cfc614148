"""One Spark session for all tests of a process, with the Kafka connector's jars where they can be had.

Starting it takes ten seconds, so whoever needs another (two workers, a driver that is killed) says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from pipeline import building
from pyiceberg.utils.config import Config
from pyspark.sql import SparkSession

from kohort.pipeline.delta import delta_settings
from kohort.pipeline.session import local_session
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import MissingTool, Tools, jars
from tests.spark import quick_jvm
from tests.spark.ingest_driver import iceberg_catalog
from tests.spark.topics import Topics

SETTINGS = {"spark.sql.streaming.stopTimeout": "30s"}


def connector_jars() -> Sequence[Path]:
    """Return the jars of Spark's own Kafka connector, unmodified. Raises: MissingTool."""
    return sorted(jars("spark").glob("*.jar"))


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> None:
    """All drivers start as soon as can be, and have the jar that belongs to its sources."""
    quick_jvm.spread()
    with suppress(building.NoCompilerError):
        building.build()


def delta_jars() -> Sequence[Path]:
    """Return the jars of Delta Lake. Raises: MissingTool."""
    return sorted(jars("delta").glob("*.jar"))


def avro_jars() -> Sequence[Path]:
    """Return the jar with Spark's decoder of Avro. Raises: MissingTool."""
    return sorted(jars("avro").glob("*.jar"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session: two cores, no page, nothing but this machine's loopback; Delta where it can be had."""
    found: list[Path] = []
    settings = dict(SETTINGS)
    try:
        found += connector_jars()
        found += delta_jars()
        found += avro_jars()
        settings |= delta_settings(fetch=False)
    except MissingTool:
        pass
    session = local_session("kohort-tests", master="local[2]", memory="700m", jars=found, settings=settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connector(spark: SparkSession) -> SparkSession:
    """The session, when it has Spark's Kafka connector; else the test is skipped with a word."""
    try:
        connector_jars()
    except MissingTool as missing:
        pytest.skip(str(missing))
    return spark


@pytest.fixture(scope="session")
def delta(spark: SparkSession) -> SparkSession:
    """The session, when it has Delta Lake; else the test is skipped with a word."""
    try:
        delta_jars()
    except MissingTool as missing:
        pytest.skip(str(missing))
    return spark


@pytest.fixture
def iceberg(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session, and a catalog of Iceberg tables in the test's folder, also for drivers that it starts."""
    for name, value in iceberg_catalog(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # It was read with pyiceberg.
    return spark


@pytest.fixture(scope="session")
def avro(spark: SparkSession) -> SparkSession:
    """The session, when it has Spark's decoder of Avro; else the test is skipped with a word."""
    try:
        avro_jars()
    except MissingTool as missing:
        pytest.skip(str(missing))
    return spark


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools | None]:
    """Kafka's own tools, None where there is no Java or Maven."""
    try:
        found = Tools()
    except MissingTool:
        yield None
    else:
        yield found
        found.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of this module's own."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), "group.initial.rebalance.delay.ms=0")
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def bootstrap(broker: BrokerProcess) -> str:
    """Where the broker listens."""
    return broker.bootstrap


@pytest.fixture(scope="module")
def topics(bootstrap: str) -> Topics:
    """Makes topics and fills them."""
    return Topics(bootstrap)
