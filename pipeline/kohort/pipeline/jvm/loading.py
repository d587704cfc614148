"""Tell a session's JVM of SegmentSource.java and what it needs, of which its own compiler makes classes.

Spark brings Janino to compile the code that it generates for queries, so that neither a JDK nor a jar that
somebody built elsewhere is needed. It takes half a second, once per JVM.
"""

import warnings
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

PACKAGE, CLASS = "kohort.pipeline.jvm", "kohort.spark.SegmentSource"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_KNOWN_JAR = "kohort.segments.jar"  # A property of the JVM: sessions end, and the JVM stays.


def load_segment_source(spark: SparkSession) -> bool:
    """Let the JVM of `spark` read segments by itself; return whether it does.

    It does not through Spark Connect, where Python has no JVM, nor when the JVM won't have it, which is
    warned of: segments are then read in Python.
    """
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        return False
    try:
        context: Any = spark.sparkContext
        jar = _jar(context, jvm)
        if not context._jsc.sc().isLocal():
            context._jsc.addJar(jar)  # Executors fetch it from the driver.
    except Py4JError as error:
        warnings.warn(f"segments are read in Python: {error}", RuntimeWarning, stacklevel=3)
        return False
    return True


def _jar(context: Any, jvm: Any) -> str:
    """Return the path of a jar that the driver's JVM has loaded. Raises: Py4JError."""
    known = jvm.java.lang.System.getProperty(_KNOWN_JAR)
    if known is not None:
        return str(known)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    # Spark deletes the folder when the JVM ends.
    jar = Path(context._temp_dir) / "kohort-segments.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name, content in _compiled(context, jvm, loader).items():
            archive.writestr(name, content)
        archive.writestr(_SERVICE, f"{CLASS}\n")
    loader.addURL(jvm.java.net.URL(jar.as_uri()))
    jvm.java.lang.System.setProperty(_KNOWN_JAR, str(jar))
    return str(jar)


def _compiled(context: Any, jvm: Any, loader: Any) -> dict[str, bytes]:
    """Return the class files of all Java sources here. Raises: Py4JError."""
    sources = [each for each in files(PACKAGE).iterdir() if each.name.endswith(".java")]
    kinds = jvm.org.codehaus.commons.compiler.util.resource
    resources = context._gateway.new_array(kinds.Resource, len(sources))
    for number, each in enumerate(sources):
        resources[number] = kinds.StringResource(each.name, each.read_text("utf-8"))
    found = jvm.java.util.HashMap()
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setClassFileCreator(kinds.MapResourceCreator(found))
    compiler.compile(resources)
    return {str(name): bytes(content) for name, content in dict(found).items()}
