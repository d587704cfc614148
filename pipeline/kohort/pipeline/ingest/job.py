"""`ingest`: from a topic to a table, exactly once for the table's readers, with the true lag of the group."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.streaming.query import StreamingQuery

from kohort.client import TopicPartition
from kohort.pipeline.executors import require_executors
from kohort.pipeline.ingest.checkpoint import Checkpoint
from kohort.pipeline.ingest.folder import open_folder
from kohort.pipeline.ingest.formats import ICEBERG, PARQUET, open_table
from kohort.pipeline.ingest.group_offsets import BrokerGroup
from kohort.pipeline.ingest.mirror import Mirror, MirrorState
from kohort.pipeline.ingest.sink import Rules, TableSink
from kohort.pipeline.ingest.topic_ids import BrokerTopics
from kohort.pipeline.running import RunningQuery
from kohort.pipeline.servers import Servers, as_servers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUP_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of an ingest; `offsets` has the checkpoint's next offset to read per partition."""

    rows: int
    rows_in_table: int
    batches_in_table: int
    batch_id: int
    offsets: dict[TopicPartition, int]
    group: MirrorState


class Ingest(RunningQuery[Summary]):
    """An ingest that runs; a context manager that stops it."""

    def __init__(
        self,
        query: StreamingQuery,
        sink: TableSink,
        mirror: Mirror,
        group: BrokerGroup,
        checkpoint: Checkpoint,
    ) -> None:
        super().__init__(query)
        self._sink = sink
        self._mirror = mirror
        self._group = group
        self._checkpoint = checkpoint
        self._summary: Summary | None = None

    @property
    def rows(self) -> int:
        """The number of rows written so far."""
        return self._sink.rows

    @property
    def group(self) -> MirrorState:
        """The state of the group's offsets."""
        return self._mirror.state

    def stop(self, group_within_s: float = GROUP_WITHIN_S) -> Summary:
        """Stop the query if it runs, bring the group to the checkpoint, and return the result.

        If the coordinator is away for longer than `group_within_s`, the next start commits; the
        summary's `group.error` says so.
        """
        if self._summary is None:
            self.query.stop()
            state = self._mirror.finish(group_within_s)
            self._group.close()
            self._summary = self._summarize(state)
        return self._summary

    def _summarize(self, state: MirrorState) -> Summary:
        progress = self._checkpoint.progress()
        return Summary(
            rows=self._sink.rows,
            rows_in_table=self._sink.table.rows,
            batches_in_table=self._sink.table.batches,
            batch_id=-1 if progress is None else progress.batch_id,
            offsets={} if progress is None else dict(progress.offsets),
            group=state,
        )


def ingest(
    stream: DataFrame,
    path: str,
    checkpoint: str,
    group: str,
    bootstrap: str | Servers,
    *,
    every: str | None = None,
    fail_on_data_loss: bool = True,
    resume: bool = False,
    backwards: bool = False,
    format: str = PARQUET,
    partition_by: Sequence[str] = (),
) -> Ingest:
    """Start to write a stream over topics to a table, and return the running ingest.

    `stream` comes from format("kohort") or format("kafka") and keeps the columns topic, partition and
    offset. `every` is the time between batches, such as "10 seconds"; without it the ingest ends at the
    end offsets of its start. `group` gets the offsets of Spark's checkpoint. `format` is "parquet", to
    be read with `read_manifest`, "delta", for every reader of Delta Lake, or "iceberg", where `path` is the
    table's name, CATALOG.NAMESPACE.TABLE, with a catalog of pyiceberg's configuration. `partition_by` names
    columns by which a table of Delta or Iceberg is laid out. `resume` lets a new checkpoint continue a table
    whose checkpoint is lost, `backwards` lets the group go back to the checkpoint, `fail_on_data_loss=False`
    accepts gaps.

    Raises: GroupBusyError, GroupAheadError, CheckpointLostError, CheckpointError, DataLossError,
    ManifestError, NoDeltaError, NoIcebergError, IcebergLogError, TableFormatError, ExecutorsError.
    """
    spark = stream.sparkSession
    require_executors(spark, None if format == ICEBERG else path)
    table = open_table(spark, path, format, partition_by)
    place = Checkpoint(open_folder(spark, checkpoint))
    servers = as_servers(bootstrap)
    rules = Rules(fail_on_data_loss=fail_on_data_loss, resume=resume)
    sink = TableSink(table, place, rules, BrokerTopics(servers))
    sink.check_owner()
    sink.check_topics()
    offsets = BrokerGroup(group, servers)
    mirror = Mirror(place, offsets, backwards=backwards)

    def write(frame: DataFrame, batch_id: int) -> None:
        sink.write(frame, batch_id)
        mirror.expect(batch_id)

    with ExitStack() as undo:
        undo.callback(offsets.close)
        mirror.start()
        undo.callback(mirror.finish, 0)
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", place.uri)
        writer = writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)
        query = writer.start()
        undo.pop_all()
    return Ingest(query, sink, mirror, offsets, place)
