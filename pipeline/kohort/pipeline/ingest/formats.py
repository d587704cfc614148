"""The forms a table can have, and which one a folder has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.pipeline.errors import PipelineError
from kohort.pipeline.iceberg import open_catalog, parse_name, require_pyiceberg
from kohort.pipeline.ingest.batch_table import BatchTable
from kohort.pipeline.ingest.delta_log import LOG
from kohort.pipeline.ingest.folder import open_folder
from kohort.pipeline.ingest.manifest import MANIFEST, ManifestLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS = (PARQUET, DELTA, ICEBERG)
_SIGNS = {MANIFEST: PARQUET, LOG: DELTA}
"""The entry in a table's folder that shows its format."""


class TableFormatError(PipelineError):
    """A form that is not known, or another one than the table in the folder has."""


def require_format(format: str, table: str = "") -> None:
    """Return if tables of this form are written, of Iceberg if there is the catalog of the table.

    Raises: TableFormatError, NoIcebergError.
    """
    if format not in FORMATS:
        raise TableFormatError(f"{format!r} is no format of a table: give one of {', '.join(FORMATS)}")
    if format == ICEBERG:
        open_catalog(parse_name(table).catalog)


def open_table(spark: SparkSession, path: str, format: str, partition_by: Sequence[str] = ()) -> BatchTable:
    """Return the table in a folder, or of that name in Iceberg. It need not be there yet.

    Raises: TableFormatError, NoIcebergError, IcebergLogError, NoDeltaError, ManifestError, DeltaLogError.
    """
    if format == ICEBERG:
        require_pyiceberg()
        from kohort.pipeline.ingest.iceberg_table import IcebergTable  # noqa: PLC0415  # It imports pyiceberg.

        return IcebergTable(spark, path, partition_by)
    require_format(format)
    if partition_by and format != DELTA:
        raise TableFormatError("columns to lay the table out by take the format delta or iceberg")
    folder = open_folder(spark, path)
    for sign in sorted(folder.names() & set(_SIGNS)):
        if _SIGNS[sign] != format:
            raise TableFormatError(
                f"{folder.uri} is a table of the format {_SIGNS[sign]}, and {format} was asked for:"
                " give it a folder of its own"
            )
    if format == DELTA:
        from kohort.pipeline.ingest.delta_table import DeltaTable  # noqa: PLC0415  # Spark's errors come with it.

        return DeltaTable(spark, path, partition_by)
    from kohort.pipeline.ingest.parquet_table import ParquetTable  # noqa: PLC0415

    return ParquetTable(ManifestLog(folder))
