"""A table of Parquet files; a manifest lists the files that belong to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from kohort.pipeline.ingest.batch_table import Batch, ColumnsError
from kohort.pipeline.ingest.checkpoint import Offsets
from kohort.pipeline.ingest.folder import LocalFolder
from kohort.pipeline.ingest.manifest import Entry, Manifest, ManifestLog, nested
from kohort.pipeline.ingest.table import FILE_ENDING, write_files
from kohort.pipeline.ingest.writer import TableWriter, require_rows
from kohort.pipeline.offsets import TopicIds, made_anew

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ParquetTable:
    """Puts batches into folders of their own, and these into the manifest."""

    def __init__(self, log: ManifestLog) -> None:
        self._folder = log.table
        self._writer = TableWriter(log)

    @property
    def uri(self) -> str:
        """The table's name as Spark takes it."""
        return self._folder.uri

    @property
    def rows(self) -> int:
        """The rows in the table."""
        return self._writer.manifest.rows

    @property
    def batches(self) -> int:
        """How many batches are in the table."""
        return len(self._writer.manifest.entries)

    def owner(self) -> str | None:
        """Return the id of the query that has put in the last batch, None of an empty table."""
        entries = self._writer.manifest.entries
        return entries[-1].query_id if entries else None

    def topic_ids(self) -> TopicIds:
        """Return the ids of the topics whose records are in the table, as far as they are known."""
        return self._writer.manifest.topic_ids()

    def begin(self) -> None:
        """Become the writer: drivers that began earlier cannot add batches any more."""
        self._writer.begin()

    def has(self, batch: Batch) -> bool:
        """Return whether exactly this batch is in the table: the same offsets are the same records.

        A batch with other offsets, after a checkpoint was rolled back, replaces the earlier one.
        """
        former = self._writer.manifest.of(batch.query_id, batch.batch_id)
        return former is not None and former.offsets == batch.ends

    def positions_before(self, batch: Batch) -> Offsets:
        """Return the next offset of each partition that is not in the table, without this batch and later
        ones."""
        manifest = self._writer.manifest
        kept = [
            each
            for each in manifest.entries
            if each.query_id != batch.query_id or each.batch_id < batch.batch_id
        ]
        before = Manifest(tuple(kept), manifest.version)
        renewed = made_anew(before.topic_ids(), batch.topic_ids)
        return {each: offset for each, offset in before.positions().items() if each.topic not in renewed}

    def put(self, frame: DataFrame, batch: Batch) -> int:
        """Write a batch's files, and put them into the manifest; return how many rows they have.

        Raises: ManifestError where another driver has changed the table, ColumnsError, DataLossError.
        """
        self._require_columns(frame)
        entry = self._write_files(frame, batch)
        self._writer.put(entry)
        return entry.rows

    def _require_columns(self, frame: DataFrame) -> None:
        """Return if the batch's columns go into one table with the others. Raises: ColumnsError."""
        entries = self._writer.manifest.entries
        if not entries:
            return
        there = StructType.fromJson(json.loads(entries[-1].columns))
        known = {each.name: each.dataType.simpleString() for each in there}
        for each in frame.schema:
            own = each.dataType.simpleString()
            if known.get(each.name, own) != own:
                raise ColumnsError(
                    f"the column {each.name} is {known[each.name]} in {self.uri}, and {own} in the batch:"
                    " give what is decoded in another way a table of its own"
                )

    def _rows_in(self, files: tuple[str, ...], written: int) -> int:
        """Return the number of rows in the files that the driver can see; for stores it trusts their answer.

        On HDFS and object stores all see the same files, and checking each file costs a request or two.
        """
        if not isinstance(self._folder, LocalFolder):
            return written if files else 0
        return sum(int(pq.read_metadata(self._folder.path / each).num_rows) for each in files)

    def _write_files(self, frame: DataFrame, batch: Batch) -> Entry:
        """Write the files of a batch into a folder of their own; return their entry for the manifest."""
        folder = self._writer.new_folder(batch.batch_id)
        rows = write_files(frame, f"{self.uri}/{folder}")
        names = self._folder.child(folder).names()
        files = tuple(f"{folder}/{name}" for name in sorted(names) if name.endswith(FILE_ENDING))
        require_rows(self._rows_in(files, rows), rows, f"{self.uri}/{folder}")
        ends, columns = nested(batch.ends), frame.schema.json()
        ids = dict(batch.topic_ids)
        return Entry(batch.query_id, batch.batch_id, files if rows else (), rows, ends, columns, ids)
