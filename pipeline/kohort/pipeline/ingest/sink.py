"""The sink of an ingest: one batch of a stream to Parquet files, and these into the manifest."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from kohort.client import TopicPartition
from kohort.pipeline.errors import DataLossError, PipelineError
from kohort.pipeline.ingest.checkpoint import Checkpoint, Offsets
from kohort.pipeline.ingest.manifest import Entry, Manifest, ManifestLog, nested
from kohort.pipeline.ingest.table import FILE_ENDING
from kohort.pipeline.ingest.writer import TableWriter, require_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE = ("topic", "partition", "offset")


class CheckpointLostError(PipelineError):
    """The table has batches of another query: the checkpoint that belongs to it is lost, or not this one."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What an ingest may do where not all is well."""

    fail_on_data_loss: bool = True
    resume: bool = False
    """Whether a new checkpoint may go on with a table that another one has begun."""


class TableSink:
    """Puts batches into a table: called by Spark, in one thread, in the order of their numbers."""

    def __init__(self, log: ManifestLog, checkpoint: Checkpoint, rules: Rules) -> None:
        self._table = log.table
        self._writer = TableWriter(log)
        self._checkpoint = checkpoint
        self._rules = rules
        self.rows = 0
        """Rows written since this sink was made."""

    @property
    def manifest(self) -> Manifest:
        """The list as this sink knows it."""
        return self._writer.manifest

    def check_owner(self) -> None:
        """Return if the table may be gone on with. Raises: CheckpointLostError."""
        if not self.manifest.entries or self._rules.resume:
            return
        owner = self.manifest.entries[-1].query_id
        found = self._checkpoint.query_id()
        if found != owner:
            raise CheckpointLostError(
                f"{self._table.uri} was written by the query {owner}, and the checkpoint"
                f" {self._checkpoint.uri} {'is empty' if found is None else f'is of the query {found}'}: the"
                " checkpoint was lost, or it is not the one that belongs to this table. With --resume"
                " (resume=True) a new checkpoint goes on where the table ends: start the stream at or before"
                " that place, and what is in the table already is left out"
            )

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Put a batch into the table, once however often it runs. Raises: DataLossError, ManifestError."""
        self._writer.begin()
        query_id = self._checkpoint.query_id() or ""
        ends = self._checkpoint.ends_of(batch_id)
        former = self.manifest.of(query_id, batch_id)
        if former is not None and former.offsets == ends:
            return  # It was written before the driver died: the same offsets are the same records.
        before = _without(self.manifest, query_id, batch_id)
        position = before.positions()
        starts = self._checkpoint.starts_of(batch_id)
        if self._rules.fail_on_data_loss:
            self._require_table(batch_id, before)
            known = starts if starts or batch_id or not position else _first_offsets(frame, ends)
            _require_no_gap(known, position)
        entry = self._write_files(_not_in_table(frame, starts, position), query_id, batch_id, ends)
        self._writer.put(entry)
        self.rows += entry.rows

    def _write_files(self, frame: DataFrame, query_id: str, batch_id: int, ends: Offsets) -> Entry:
        """Write a batch's files into a folder of their own; return what the manifest has to say of them."""
        folder = self._writer.new_folder(batch_id)
        counted = Observation()
        observed = frame.observe(counted, F.count(F.lit(1)).alias("rows"))
        observed.write.parquet(f"{self._table.uri}/{folder}")
        rows = int(counted.get["rows"])
        names = self._table.child(folder).names()
        files = tuple(f"{folder}/{name}" for name in sorted(names) if name.endswith(FILE_ENDING))
        require_files(files, rows, f"{self._table.uri}/{folder}")
        return Entry(query_id, batch_id, files if rows else (), rows, nested(ends), frame.schema.json())

    def _require_table(self, batch_id: int, before: Manifest) -> None:
        """Return if the table has what the checkpoint has done. Raises: DataLossError."""
        if batch_id > 0 and not before.entries:
            raise DataLossError(
                f"the checkpoint {self._checkpoint.uri} goes on with batch {batch_id}, and the table"
                f" {self._table.uri} has none of the batches before it: the table was lost or moved, or"
                " it is another one's. Start with a new checkpoint, or opt out with fail_on_data_loss=False"
            )


def _require_no_gap(starts: Offsets, position: Offsets) -> None:
    """Return if nothing lies between the table's end and the batch. Raises: DataLossError."""
    for partition, start in sorted(starts.items()):
        if start > position.get(partition, start):
            raise DataLossError(
                f"{partition}: the table ends before offset {position[partition]} and the stream goes on"
                f" at {start}: the records between would be missing. Start the stream at or before"
                f" {position[partition]}, or opt out with fail_on_data_loss=False"
            )


def _without(manifest: Manifest, query_id: str, batch_id: int) -> Manifest:
    """Return the list before this batch: on a run that is repeated it may have the batch, and later ones."""
    kept = [each for each in manifest.entries if each.query_id != query_id or each.batch_id < batch_id]
    return Manifest(tuple(kept), manifest.version)


def _first_offsets(frame: DataFrame, ends: Offsets) -> dict[TopicPartition, int]:
    """Return the first offset that a batch has of each partition; its end where it has none."""
    rows = frame.groupBy("topic", "partition").agg(F.min("offset").alias("offset")).collect()
    found = {TopicPartition(row["topic"], row["partition"]): int(row["offset"]) for row in rows}
    return {**ends, **found}


def _not_in_table(frame: DataFrame, starts: Offsets, position: Offsets) -> DataFrame:
    """Return the records that the table does not have; all, where the batch begins at the table's end."""
    overlapping = {
        partition: offset for partition, offset in position.items() if starts.get(partition, 0) < offset
    }
    if not overlapping:
        return frame
    missing = set(PLACE) - set(frame.columns)
    if missing:
        raise DataLossError(
            f"the stream has no column {', '.join(sorted(missing))}: which of its records are in the table"
            " already cannot be told"
        )
    return frame.where(F.col("offset") >= _position_column(overlapping))


def _position_column(position: Mapping[TopicPartition, int]) -> Column:
    """Return the offset of a record's partition at which the table ends."""
    pairs = [(F.lit(f"{each.topic}/{each.partition}"), F.lit(offset)) for each, offset in position.items()]
    known = F.create_map(*functools.reduce(operator.iadd, map(list, pairs), []))
    place = F.concat_ws("/", F.col("topic"), F.col("partition").cast("string"))
    return F.coalesce(known[place], F.lit(0))
