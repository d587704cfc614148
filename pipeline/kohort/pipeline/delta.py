"""Delta Lake in a Spark session: which jar it takes, and whether the session has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kohort.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSION = "4.4.0"
"""Of the jar. The Python package of this name is not needed."""
EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
PACKAGES = "spark.jars.packages"
SNAPSHOT_PARTITIONS = 4
"""Delta computes a table's state in fifty tasks by default, which takes seconds on one machine."""


class NoDeltaError(PipelineError):
    """The Spark session has no Delta Lake."""


def package() -> str:
    """Return the coordinates of Delta's jar for the installed Spark."""
    return f"io.delta:delta-spark_{spark_minor()}_2.13:{VERSION}"


def spark_minor() -> str:
    """Return the minor version of the installed Spark, such as "4.2"."""
    import pyspark  # noqa: PLC0415  # Its version alone.

    return ".".join(pyspark.__version__.split(".")[:2])


def adding_package(settings: Mapping[str, str], coordinates: str) -> dict[str, str]:
    """Return the settings of a session for which Spark gets one jar more from Maven Central."""
    named = settings.get(PACKAGES)
    return {**settings, PACKAGES: f"{named},{coordinates}" if named else coordinates}


def delta_settings(*, fetch: bool = True) -> dict[str, str]:
    """Return the settings of a session with Delta Lake; with `fetch` Spark gets the jar by itself."""
    found = {
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.databricks.delta.snapshotPartitions": str(SNAPSHOT_PARTITIONS),
    }
    return adding_package(found, package()) if fetch else found


def require_delta(spark: SparkSession) -> None:
    """Return if the session can write Delta tables. Raises: NoDeltaError that says what is missing."""
    context: Any = spark.sparkContext  # Java's objects have the methods that their classes have there.
    is_there = context._jvm.org.apache.spark.util.Utils.classIsLoadable(EXTENSION)
    if is_there and EXTENSION in (spark.conf.get("spark.sql.extensions", "") or ""):
        return
    raise NoDeltaError(
        "this Spark session has no Delta Lake: make it with local_session(settings=delta_settings()) of"
        " kohort.pipeline.delta, or give spark-submit"
        f" --packages {package()} --conf spark.sql.extensions={EXTENSION}"
        f" --conf spark.sql.catalog.spark_catalog={CATALOG}"
    )
