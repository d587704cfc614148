"""The sink of an ingest: one batch of a stream into the table, once."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kohort.client import TopicPartition
from kohort.pipeline.errors import DataLossError, PipelineError
from kohort.pipeline.ingest.batch_table import PLACE, Batch, BatchTable, TableTakenError
from kohort.pipeline.ingest.checkpoint import Checkpoint, Offsets
from kohort.pipeline.ingest.topic_ids import TopicRegister
from kohort.pipeline.offsets import TopicIds, made_anew

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class CheckpointLostError(PipelineError):
    """The table has batches of another query: the checkpoint that belongs to it is lost, or not this one."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What an ingest may do where not all is well."""

    fail_on_data_loss: bool = True
    resume: bool = False
    """Whether a new checkpoint may continue a table that another checkpoint has begun."""


class TableSink:
    """Puts batches into a table: called by Spark, in one thread, in the order of their numbers."""

    def __init__(
        self, table: BatchTable, checkpoint: Checkpoint, rules: Rules, topics: TopicRegister
    ) -> None:
        self.table = table
        self._checkpoint = checkpoint
        self._rules = rules
        self._topics = topics
        self._owner = table.owner()
        self.rows = 0
        """Rows written since this sink was made."""

    def check_owner(self) -> None:
        """Return if this query may continue the table. Raises: CheckpointLostError."""
        owner = self._owner
        if owner is None or self._rules.resume:
            return
        found = self._checkpoint.query_id()
        if found != owner:
            raise CheckpointLostError(
                f"{self.table.uri} was written by the query {owner}, and the checkpoint"
                f" {self._checkpoint.uri} {'is empty' if found is None else f'is of the query {found}'}: the"
                " checkpoint was lost, or it is not the one that belongs to this table. With --resume"
                " (resume=True) a new checkpoint goes on where the table ends: start the stream at or before"
                " that place, and what is in the table already is left out"
            )

    def check_topics(self) -> None:
        """Return if the topics of the table still exist and were not created again.

        Raises: DataLossError, KohortError.
        Where no record is new there is no batch that would notice it.
        """
        known = self.table.topic_ids()
        if self._rules.fail_on_data_loss and known:
            self._require_same_topics(self._topics.ids(known))

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Put a batch into the table, once however often it runs.

        Raises: DataLossError, ManifestError, TableTakenError.
        """
        self.table.begin()
        batch = Batch(self._checkpoint.query_id() or "", batch_id, self._checkpoint.ends_of(batch_id))
        if self.table.has(batch):
            return  # It was written before the driver died.
        self._require_ours(batch)
        batch = replace(batch, topic_ids=self._topics.ids(each.topic for each in batch.ends))
        if self._rules.fail_on_data_loss:
            self._require_same_topics(batch.topic_ids)
        position = self.table.positions_before(batch)
        starts = self._checkpoint.starts_of(batch_id)
        if self._rules.fail_on_data_loss:
            self._require_table(batch_id, position)
            known = starts if starts or batch_id or not position else _first_offsets(frame, batch.ends)
            _require_no_gap(known, position)
        self.rows += self.table.put(_not_in_table(frame, starts, position), batch)
        self._owner = batch.query_id

    def _require_ours(self, batch: Batch) -> None:
        """Return if no other query has written a batch since the last look. Raises: TableTakenError."""
        owner = self.table.owner()
        if owner not in {batch.query_id, self._owner}:
            raise TableTakenError(
                f"the query {owner} writes to {self.table.uri} meanwhile: two queries write to one table, or"
                " this one was thought dead; it changes nothing any more"
            )

    def _require_same_topics(self, now: TopicIds) -> None:
        """Return if no topic has another id than the table's records are of. Raises: DataLossError."""
        renewed = made_anew(self.table.topic_ids(), now)
        if renewed:
            raise DataLossError(
                f"{', '.join(renewed)}: deleted and made anew since {self.table.uri} had its last batch, so"
                " that its offsets are other records' now. Give it a table and a checkpoint of its own, or"
                " opt out with fail_on_data_loss=False"
            )

    def _require_table(self, batch_id: int, position: Offsets) -> None:
        """Return if the table has all batches of the checkpoint. Raises: DataLossError."""
        if batch_id > 0 and not position:
            raise DataLossError(
                f"the checkpoint {self._checkpoint.uri} goes on with batch {batch_id}, and the table"
                f" {self.table.uri} has none of the batches before it: the table was lost or moved, or"
                " it is another one's. Start with a new checkpoint, or opt out with fail_on_data_loss=False"
            )


def _require_no_gap(starts: Offsets, position: Offsets) -> None:
    """Return if there is no gap between the table's end and the batch. Raises: DataLossError."""
    for partition, start in sorted(starts.items()):
        if start > position.get(partition, start):
            raise DataLossError(
                f"{partition}: the table ends before offset {position[partition]} and the stream goes on"
                f" at {start}: the records between would be missing. Start the stream at or before"
                f" {position[partition]}, or opt out with fail_on_data_loss=False"
            )


def _first_offsets(frame: DataFrame, ends: Offsets) -> dict[TopicPartition, int]:
    """Return the first offset that a batch has of each partition; its end where it has none."""
    rows = frame.groupBy("topic", "partition").agg(F.min("offset").alias("offset")).collect()
    found = {TopicPartition(row["topic"], row["partition"]): int(row["offset"]) for row in rows}
    return {**ends, **found}


def _not_in_table(frame: DataFrame, starts: Offsets, position: Offsets) -> DataFrame:
    """Return the records that the table does not have; all, if the batch begins at the table's end."""
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
