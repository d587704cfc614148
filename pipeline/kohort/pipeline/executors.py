"""Checks of the executors before a job relies on them.

A cluster's workers run the tasks in Python processes of their own: each needs this package in the same
version, and, for tables in a folder, the same folder under the same name.
"""

from __future__ import annotations

import os
import uuid
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.ingest.folder import LocalFolder, open_folder
from kohort.pipeline.session import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

PACKAGE = "kohort"
TASKS_PER_CORE = 2
_SIGNS = {
    f"No module named '{PACKAGE}": "their Python does not have kohort",
    "PYTHON_VERSION_MISMATCH": "their Python is of another version than the driver's",
    "Cannot run program": "they do not find the Python that PYSPARK_PYTHON names",
}


class ExecutorsError(PipelineError):
    """The executors lack something that the tasks need."""


def own_version() -> str:
    """Return the version of this package that is installed here, "" where none is."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


def require_executors(spark: SparkSession, folder: str | None = None) -> None:
    """Return if the executors can run our tasks, and see the folder, where it is one of a file system.

    With a master on this machine nothing is checked. Raises: ExecutorsError that says what is missing.
    """
    context = spark.sparkContext
    if (context.master or LOCAL).startswith(LOCAL):
        return
    table = None if folder is None else open_folder(spark, folder)
    if not isinstance(table, LocalFolder):
        _look(spark, None)
        return
    is_new = not table.path.exists()
    table.path.mkdir(parents=True, exist_ok=True)
    mark = table.path / f".seen-by-executors-{uuid.uuid4().hex}"
    mark.touch()
    try:
        _look(spark, mark)
    finally:
        mark.unlink()
        if is_new:
            table.path.rmdir()  # The table makes it when it has something to put there.


def _look(spark: SparkSession, mark: Path | None) -> None:
    context = spark.sparkContext
    tasks = max(context.defaultParallelism, 1) * TASKS_PER_CORE
    path = None if mark is None else str(mark)

    def look(_: Iterable[int]) -> Iterable[tuple[str, str, bool]]:
        from kohort.pipeline.executors import own_version  # noqa: PLC0415  # The executor's own.

        yield os.uname().nodename, own_version(), path is None or os.path.exists(path)

    try:
        told = context.parallelize(range(tasks), tasks).mapPartitions(look).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise _explained(str(error)) from None
    others = sorted({(host, found) for host, found, _ in told if found != own_version()})
    if others:
        host, found = others[0]
        raise ExecutorsError(
            f"the executor on {host} has kohort {found or 'of no version'}, and the driver {own_version()}:"
            " install the same on all hosts"
        )
    blind = sorted({host for host, _, sees in told if not sees})
    if blind and mark is not None:
        raise ExecutorsError(
            f"executors on {', '.join(blind)} do not see the folder {mark.parent} as the driver does: a table"
            " has to lie in a file system that all share, under the same name"
        )


def _explained(text: str) -> ExecutorsError:
    for sign, meaning in _SIGNS.items():
        if sign in text:
            return ExecutorsError(
                f"the executors cannot run the tasks: {meaning}. Install 'kohort[spark]=={own_version()}' for"
                " the same Python on every host and name it in PYSPARK_PYTHON, or ship an environment with"
                " --archives (spark.archives)"
            )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ExecutorsError(f"the executors cannot run the tasks: {lines[0] if lines else 'nothing was said'}")
