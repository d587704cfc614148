"""Iceberg: for which versions of Spark its runtime is published, and that this one is not among them."""

from __future__ import annotations

from kohort.pipeline.delta import spark_minor
from kohort.pipeline.errors import PipelineError

RUNTIMES = {"4.0": "1.11.0", "4.1": "1.12.0"}
"""The newest `iceberg-spark-runtime` on Maven Central for each minor version of Spark 4, in November 2026."""


class NoIcebergError(PipelineError):
    """Tables in Iceberg cannot be written on this Spark."""


def no_iceberg() -> NoIcebergError:
    """Return the error that says why the installed Spark writes no Iceberg, and what to use instead."""
    minor = spark_minor()
    published = ", ".join(f"{version} for Spark {named}" for named, version in RUNTIMES.items())
    return NoIcebergError(
        f"Iceberg cannot be written on Spark {minor}: what is published of iceberg-spark-runtime is"
        f" {published}. Give the format delta, which readers besides Spark know as well"
    )
