"""A Spark session, on this machine or of a cluster, with all settings made before its JVM starts."""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from kohort.pipeline.delta import PACKAGES
from kohort.pipeline.errors import PipelineError
from kohort.pipeline.java import java_for_spark

_DAEMON, QUIET_DAEMON = "spark.python.daemon.module", "kohort.pipeline.quiet_daemon"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_QUIET = Path(__file__).resolve().with_name("quiet.log4j2.properties")
_LAUNCHER_ENDED = "JAVA_GATEWAY_EXITED"
LOOPBACK = "127.0.0.1"
LOCAL, STANDALONE = "local", "spark://"
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""If spark-submit has started this program, its JVM exists already and listens here."""


class NoSessionError(PipelineError):
    """Spark's launcher has ended before there was a session."""


def local_session(
    name: str = "kohort",
    *,
    master: str = "local[2]",
    memory: str = "1g",
    jars: Sequence[Path | str] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session without a web page, in which `kohort` is registered.

    With a `master` on this machine (local[4]) it uses no network; with a cluster
    (spark://HOST:7077) the executors get the address of the driver in its network. If spark-submit
    runs the program, its options apply, and `master`, `memory` and `jars` are left out. `settings` are
    Spark's own names and are applied last.
    Raises: NoJavaError, NoSessionError.
    """
    if is_submitted():
        return _registered(_builder(name, _COMMON | dict(settings or {})))
    # Spark starts `python3` from the path otherwise, which may know nothing of this environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(java_for_spark())
    wanted = _COMMON | _defaults(memory, jars) | _addresses(master) | dict(settings or {})
    try:
        return _registered(_builder(name, wanted).master(master))
    except PySparkRuntimeError as error:
        if error.getCondition() != _LAUNCHER_ENDED:
            raise
        raise _no_session(wanted.get(PACKAGES)) from None


def _no_session(packages: str | None) -> NoSessionError:
    """Return what is known of a launcher that has ended.

    It has written the reason to standard error itself.
    """
    if not packages:
        return NoSessionError("Spark did not start: its launcher says above why")
    return NoSessionError(
        f"Spark did not start: its launcher says above why. It was to fetch {packages} from Maven Central:"
        " where that is out of reach, name the files in spark.jars, which fetches nothing"
    )


def quietly(settings: Mapping[str, str], master: str) -> dict[str, str]:
    """Return the settings of a session whose driver writes errors alone to standard error, from its start on.

    Given settings are kept and override all others. Executors of a cluster write into their own files.
    """
    daemon = {_DAEMON: QUIET_DAEMON} if master.startswith(LOCAL) else {}
    java = f"-Dlog4j2.configurationFile={_QUIET.as_uri()} {settings.get(_JAVA_OPTIONS, '')}"
    return {**daemon, **settings, _JAVA_OPTIONS: java.rstrip()}


def is_submitted() -> bool:
    """Return whether spark-submit runs this program, with its own master and settings."""
    return SUBMITTED in os.environ


def _builder(name: str, settings: Mapping[str, str]) -> SparkSession.Builder:
    builder = SparkSession.Builder().appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _registered(builder: SparkSession.Builder) -> SparkSession:
    spark = builder.getOrCreate()
    from kohort.pipeline import register  # noqa: PLC0415  # It imports the sources, which import Spark.

    register(spark)
    return spark


_COMMON = {
    # Rows from Python take a fifth less CPU than by TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def _addresses(master: str) -> dict[str, str]:
    """Return the address of the driver for executors, as far as it is known here."""
    if master.startswith(LOCAL):
        return {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if not master.startswith(STANDALONE):
        return {}  # YARN and Kubernetes have their own ways.
    own = address_towards(master.removeprefix(STANDALONE).split(",")[0])
    return {} if own is None else {"spark.driver.host": own}


def address_towards(place: str) -> str | None:
    """Return the address that this machine has towards HOST:PORT, None where the host is not known.

    Nothing is sent: a datagram socket that is connected has chosen its own end.
    """
    host, _, port = place.rpartition(":")
    try:
        ((family, _, _, _, address), *_) = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_DGRAM
        )
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return None


def _defaults(memory: str, jars: Sequence[Path | str]) -> dict[str, str]:
    found = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }
    if jars:
        found["spark.jars"] = ",".join(str(each) for each in jars)
    return found
