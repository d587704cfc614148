"""A Spark session on this machine, with what its Python side needs set before its JVM starts."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from kohort.pipeline.java import java_for_spark

LOOPBACK = "127.0.0.1"


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
    os.environ["JAVA_HOME"] = str(java_for_spark())
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
