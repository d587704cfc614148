"""Build the jar for Spark's JVM, which reads segments and reports streams, for the installed Spark.

It needs a JDK.

    python pipeline/building.py          # make jar

The jar lies beside its sources, and the wheel takes it from there. A jar newer than its sources is kept.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from kohort.pipeline.jvm.loading import jar_name

SOURCES = Path(__file__).resolve().parent / "kohort" / "pipeline" / "jvm"
RELEASE = "17"
"""The oldest Java that Spark 4 runs on."""
LINT = "-Xlint:all,-classfile,-path,-processing,-rawtypes,-unchecked,-deprecation"
SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
SOURCE_CLASS = "kohort.spark.SegmentSource"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same sources make the same jar."""


class NoCompilerError(Exception):
    """There is no javac on this machine."""


def build() -> Path:
    """Return the path of a jar that is up to date. Raises: NoCompilerError, CalledProcessError."""
    jar = SOURCES / jar_name(pyspark.__version__)
    sources = sorted(SOURCES.glob("*.java"))
    if jar.exists() and jar.stat().st_mtime > max(each.stat().st_mtime for each in sources):
        return jar
    compiler = shutil.which("javac")
    if compiler is None:
        raise NoCompilerError("javac is not installed: Python reads segments, which takes longer")
    class_path = Path(pyspark.__file__).parent / "jars" / "*"
    with tempfile.TemporaryDirectory() as folder:
        options = ["--release", RELEASE, LINT, "-Werror", "-XDsuppressNotes", "-cp", str(class_path)]
        subprocess.run([compiler, *options, "-d", folder, *sources], check=True)
        own = jar.with_name(f".{jar.name}.{Path(folder).name}")
        with zipfile.ZipFile(own, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in sorted(Path(folder).rglob("*.class")):
                name = each.relative_to(folder).as_posix()
                _add(archive, name, each.read_bytes())
            _add(archive, SERVICE, f"{SOURCE_CLASS}\n".encode())
        own.replace(jar)
    return jar


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)


def main() -> int:
    """Build the jar, or say why not; that is no failure, because everything works without it."""
    try:
        sys.stdout.write(f"{build()}\n")
    except NoCompilerError as error:
        sys.stderr.write(f"no jar: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
