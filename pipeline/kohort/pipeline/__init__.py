"""Kafka data on Spark: topics and segment files as tables, and the true lag of the group.

    from kohort.pipeline import register
    from kohort.pipeline.session import local_session      # or a session of your own, and register(spark)

    spark.read.format("kohort").option("bootstrap", "127.0.0.1:9092").option("topics", "flights").load()
    spark.readStream.format("kohort")...                    # availableNow, or processingTime
    frame.write.format("kohort").option("bootstrap", ...).option("topic", "delays").mode("append").save()
    frame.writeStream.format("kohort")...
    spark.read.format("kohort-segments").option("path", "/var/lib/kohort").option("topics", "flights").load()

    spark.sql("SELECT * FROM read_kafka(bootstrapServers => '127.0.0.1:9092', subscribe => 'flights')")
    spark.sql("SELECT * FROM STREAM read_kafka(...)")

The JVM reads segments by itself; `kohort-segments-python` is Python alone, and reads the same.

Columns: key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, and with
`include_timestamp_type=true` timestampType int (0 for the producer's time, 1 for the broker's), with
`include_headers=true` headers array<struct<key string, value binary>>: as in Spark's Kafka source.
`.schema("value binary, offset bigint")` reads these columns alone. `kohort.pipeline.options` describes the
options; a stream's offsets are `{"topic": {"0": 42}}`, the next offset to read, as Spark's Kafka connector
has them (`kohort.pipeline.offsets` reads and writes them).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Let a session know the formats `kohort` and `kohort-segments`."""
    # The plain extra has no Spark.
    from kohort.pipeline.jvm.loading import load_segment_source, register_source  # noqa: PLC0415
    from kohort.pipeline.segment_source import OnlySegmentSource, SegmentSource  # noqa: PLC0415
    from kohort.pipeline.source import KohortSource  # noqa: PLC0415

    register_source(spark, KohortSource)
    register_source(spark, SegmentSource)
    if not load_segment_source(spark):
        spark.dataSource.register(OnlySegmentSource)
