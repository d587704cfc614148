"""Load our jar into the JVM of a session, if there is one for its Spark.

The jar reads segments, lets SQL call `read_kafka`, and lets streams of `format("kohort")` report in their
progress what Spark does not ask Python sources for: Spark finds its class `kohort.DefaultSource` by that
name.
"""

import re
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.udf import _wrap_function

from kohort.pipeline.errors import PipelineError

PACKAGE = "kohort.pipeline.jvm"
_JAR = re.compile(r"kohort-segments-spark-(\d+\.\d+)\.jar")
_CHECK = "kohort.spark.RowCheck"
_KNOWN_JAR = "kohort.segments.jar"  # A property of the JVM: sessions end, and the JVM stays.
_said: set[str] = set()


class NoJarError(PipelineError):
    """There is no jar for this Spark."""


def jar_name(spark_version: str) -> str:
    """Return the name of the jar for a version of Spark: one serves a minor version."""
    return f"kohort-segments-spark-{'.'.join(spark_version.split('.')[:2])}.jar"


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Let a session know a Python source, also where an earlier session of the JVM has loaded our jar.

    `spark.dataSource.register` refuses a name for which Spark finds a class, and the jar has
    `kohort.DefaultSource`.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None or jvm.java.lang.System.getProperty(_KNOWN_JAR) is None:
        spark.dataSource.register(source)
        return
    python = jvm.org.apache.spark.sql.execution.datasources.v2.python
    made = python.UserDefinedPythonDataSource(_wrap_function(spark.sparkContext, source))
    session: Any = spark
    session._jsparkSession.sessionState().dataSourceManager().registerDataSource(source.name(), made)


def load_segment_source(spark: SparkSession) -> bool:
    """Let the JVM of `spark` read segments by itself, and its SQL call `read_kafka`; return whether it does.

    It does not through Spark Connect, where Python has no JVM, nor where there is no jar for its Spark, the
    JVM won't have it, or has other classes than the jar was made for, which is warned of once: segments are
    then read in Python.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        return False
    context: Any = spark.sparkContext
    try:
        jar = _jar(jvm, context._gateway, spark.version)
        if not context._jsc.sc().isLocal():
            context._jsc.addJar(jar)  # Executors fetch it from the driver.
    except (Py4JError, NoJarError) as error:
        _warn_once(f"segments are read in Python: {_words(error)}")
        return False
    session: Any = spark
    try:
        jvm.kohort.spark.ReadKafka.register(session._jsparkSession)
    except Py4JError as error:
        _warn_once(f"SQL has no read_kafka: {_words(error)}")
    return True


def _warn_once(problem: str) -> None:
    if problem not in _said:
        _said.add(problem)
        warnings.warn(problem, RuntimeWarning, stacklevel=4)


def _words(error: Exception) -> str:
    """Return what went wrong in one line: Py4J's text has a new number each time, and Java's whole stack."""
    return str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)


def _jar(jvm: Any, gateway: Any, spark_version: str) -> str:
    """Return the path of a jar that the driver's JVM has loaded. Raises: NoJarError, Py4JError."""
    known = jvm.java.lang.System.getProperty(_KNOWN_JAR)
    if known is not None:
        return str(known)
    jar = find_jar(spark_version)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    url = jvm.java.net.URL(jar.as_uri())
    _check(jvm, gateway, url, loader)
    loader.addURL(url)
    jvm.java.lang.System.setProperty(_KNOWN_JAR, str(jar))
    return str(jar)


def _check(jvm: Any, gateway: Any, url: Any, parent: Any) -> None:
    """Return if the jar fits the classes of this Spark. Raises: Py4JError.

    A loader of its own has the jar meanwhile. It cannot be taken out of Spark's loader, and while it is there
    Spark refuses Python's sources of the same names.
    """
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = url
    loader = jvm.java.net.URLClassLoader.newInstance(urls, parent)
    try:
        loader.loadClass(_CHECK).newInstance()
    finally:
        loader.close()


def find_jar(spark_version: str) -> Path:
    """Return the jar for a version of Spark. Raises: NoJarError that lists the versions with a jar."""
    folder = Path(str(files(PACKAGE)))
    jar = folder / jar_name(spark_version)
    if jar.exists():
        return jar.resolve()
    others = sorted(match[1] for each in folder.iterdir() if (match := _JAR.fullmatch(each.name)))
    known = f"it is there for Spark {', '.join(others)}" if others else "`make jar` builds it"
    raise NoJarError(f"this Spark is {spark_version}, for which there is no {jar.name}; {known}")
