"""`__consumer_offsets` and `__group_events` as tables.

Each takes the raw records as format("kohort"), format("kohort-segments") or Spark's Kafka connector gives
them, as a batch or as a stream. `__consumer_offsets` is compacted: it holds only those past commits
that the cleaner has not removed yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, _parse_datatype_string

from kohort.pipeline.analytics.decoding import Cells, Raw, commit_row, group_row
from kohort.pipeline.servers import Servers, as_servers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONSUMER_OFFSETS, GROUP_EVENTS = "__consumer_offsets", "__group_events"

COMMITS = (
    "group_id string, topic string, partition int, committed_offset long, leader_epoch int, metadata string,"
    " committed_ms long, log_partition int, log_offset long"
)
MEMBER = (
    "struct<member_id:string, group_instance_id:string, client_id:string, client_host:string,"
    " rebalance_timeout_ms:int, session_timeout_ms:int, topics:array<string>,"
    " assigned:array<struct<topic:string, partitions:array<int>>>>"
)
GROUPS = (
    "group_id string, is_deleted boolean, protocol_type string, generation_id int, protocol_name string,"
    f" leader string, state_ms long, members array<{MEMBER}>, log_partition int, log_offset long"
)
CAUSE = (
    "struct<kind:string, at_ms:long, member_id:string, client_id:string, group_instance_id:string,"
    " reason:string, after_ms:long, client_host:string, connection_closed_ms:long>"
)
WAITED = "struct<member_id:string, client_id:string, waited_ms:long, joined:boolean>"
MOVE = "struct<topic:string, partition:int, from_member_id:string, to_member_id:string, still_ms:long>"
REPORT = (
    f"struct<outcome:string, generation_id:int, cause:{CAUSE}, further_causes:array<{CAUSE}>,"
    " started_ms:long, join_ms:long, sync_ms:long, still_ms:long, members:int, leader:string,"
    f" protocol_name:string, waited_for:array<{WAITED}>, removed_member_ids:array<string>,"
    f" moves:array<{MOVE}>, is_initial:boolean, is_by_broker:boolean>"
)
EVENTS = (
    "event string, group_id string, at_ms long, member_id string, client_id string, client_host string,"
    " group_instance_id string, reason string, after_ms long, by_member_id string, former_member_id string,"
    f" rebalances boolean, error string, cause {CAUSE}, from_generation_id int, generation_id int,"
    " members int, waits_for_member_ids array<string>, deadline_ms long, leader string, former_leader string,"
    f" protocol_name string, waited_ms long, waited_for array<{WAITED}>, report {REPORT}, expired boolean,"
    " offsets int, node_id int, former_node_id int, why string, silent_ms long"
)


def read_topic(
    spark: SparkSession, topic: str, *, bootstrap: str | Servers = "", folder: str = ""
) -> DataFrame:
    """Return the records of a topic from a broker, or from a data folder if one is given."""
    if folder:
        return spark.read.format("kohort-segments").option("path", folder).option("topics", topic).load()
    reader = spark.read.format("kohort").options(**as_servers(bootstrap).options())
    return reader.option("topics", topic).load()


def commits(records: DataFrame) -> DataFrame:
    """Return the commits among the records of `__consumer_offsets`, one row each.

    Where an offset was removed, `committed_offset` and `committed_ms` are null.
    """
    return _decoded(records, COMMITS, commit_row)


def groups(records: DataFrame) -> DataFrame:
    """Return the groups among the records of `__consumer_offsets`, one row for each generation written."""
    return _decoded(records, GROUPS, group_row)


def events(records: DataFrame) -> DataFrame:
    """Return the records of `__group_events` as columns.

    Columns that an event type does not have are null.
    """
    told = F.from_json(F.col("value").cast("string"), EVENTS)
    return (
        records.select(told.alias("event"), "partition", "offset")
        .select("event.*", F.col("partition").alias("log_partition"), F.col("offset").alias("log_offset"))
        .where(F.col("event").isNotNull())
    )


def rebalances(of_events: DataFrame) -> DataFrame:
    """Return the rebalances among the events, one row each: the report's columns and the group's id."""
    return of_events.where(F.col("event") == "RebalanceCompleted").select("group_id", "report.*")


def _decoded(records: DataFrame, schema: str, decode: Callable[[Raw], Cells | None]) -> DataFrame:
    """Return the decoded records, without those for which `decode` returns None."""
    arrow = to_arrow_schema(_struct(schema))

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in Raw._fields)
            rows = (decode(Raw(*each)) for each in zip(*columns, strict=True))
            yield pa.RecordBatch.from_pylist([each for each in rows if each is not None], schema=arrow)

    return records.select(*Raw._fields).mapInArrow(convert, schema)


def _struct(schema: str) -> StructType:
    found = _parse_datatype_string(schema)
    assert isinstance(found, StructType)
    return found
