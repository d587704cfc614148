"""The ingested table: how a batch is added, and how it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kohort.pipeline.ingest.folder import open_folder
from kohort.pipeline.ingest.manifest import ManifestError, ManifestLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE_ENDING = ".parquet"


def write_files(frame: DataFrame, folder: str, *columns: str) -> int:
    """Write a batch's rows as Parquet files into a folder, by these columns; return how many rows."""
    counted = Observation()
    observed = frame.observe(counted, F.count(F.lit(1)).alias("rows"))
    observed.write.partitionBy(*columns).parquet(folder)
    return int(counted.get["rows"])


def read_manifest(spark: SparkSession, path: str) -> DataFrame:
    """Return the table that `ingest` has written, as of now: every record once.

    Files of a batch whose driver was killed are not in it. Raises: ManifestError where
    nothing has been ingested.
    """
    table = open_folder(spark, path)
    manifest = ManifestLog(table).read()
    if not manifest.entries:
        raise ManifestError(f"{path} has no manifest with a batch in it: nothing has been ingested there")
    columns = StructType.fromJson(json.loads(manifest.entries[-1].columns))
    files = [f"{table.uri}/{file}" for file in manifest.files]
    if not files:
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).parquet(*files)
