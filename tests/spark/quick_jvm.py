"""Lets Spark's JVMs, which live for seconds here, start in half the time.

Most of their start is Java reading Spark's classes from jars. `python -m tests.spark.quick_jvm` (`make spark`
does) runs one ingest and has Java keep the classes that it took, in the user's cache folder: every later
JVM maps that archive into its memory. Without the archive all runs as well, but slower.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from kohort.pipeline.ingest import read_manifest
from kohort.pipeline.java import NoJavaError, find_java
from kohort.pipeline.session import local_session
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools import cache_folder
from tests.spark.ingest_world import World

# Most queries here are over before the second compiler would have begun.
BASIC = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
QUIET = "-Xlog:disable"  # An archive that does not fit any more is no news: Java goes on without.
FOR_SPARK, FOR_ITS_LAUNCHER = "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"
EXIT_TIMEOUT_S = 120
RECORDS = 1_000


def options() -> str:
    """Return what Java is told, on the command line, of a JVM that is to start soon."""
    archive = archive_path()
    used = f" -XX:SharedArchiveFile={archive}" if archive is not None and archive.exists() else ""
    return f"{BASIC} {QUIET}{used}"


def spread() -> None:
    """Have all Spark drivers that this process and its children start from now on start soon."""
    os.environ[FOR_ITS_LAUNCHER] = BASIC
    os.environ[FOR_SPARK] = options()


def archive_path() -> Path | None:
    """Return where the archive is, or would be: one for each Java and each Spark; None without a Java."""
    spark = find_spec("pyspark")
    try:
        java = find_java() / "bin" / "java"
    except NoJavaError:
        return None
    assert spark is not None
    assert spark.origin is not None
    told = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    jars = sorted((Path(spark.origin).parent / "jars").glob("*.jar"))
    stamps = "\n".join(f"{each} {each.stat().st_mtime_ns}" for each in jars)
    name = hashlib.sha256(told + stamps.encode() + BASIC.encode()).hexdigest()[:12]
    return cache_folder() / f"spark-{name}.jsa"


def make_archive(path: Path) -> None:
    """Run an ingest and keep the classes that it took; the archive appears when it is complete."""
    own = path.with_name(f"{path.name}-{os.getpid()}")
    own.parent.mkdir(parents=True, exist_ok=True)
    os.environ[FOR_SPARK] = f"{BASIC} {QUIET} -XX:ArchiveClassesAtExit={own}"
    with tempfile.TemporaryDirectory() as name:
        broker = BrokerProcess(Path(name))
        broker.start()
        try:
            run_ingest(World(broker, Path(name)))
        finally:
            broker.stop()
    own.rename(path)


def run_ingest(world: World) -> None:
    """Ingest and read what was ingested; return when the JVM has ended, which is when it writes."""
    world.make_topic()
    world.produce(RECORDS)
    spark = local_session("archive")
    world.ingest(world.stream(spark))
    read_manifest(spark, world.table).groupBy("partition").count().orderBy("count").collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    assert process.stdin is not None
    process.stdin.close()
    process.wait(EXIT_TIMEOUT_S)


def main() -> int:
    path = archive_path()
    if path is not None and not path.exists():
        sys.stdout.write(f"keeping Spark's classes in {path} ...\n")
        make_archive(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
