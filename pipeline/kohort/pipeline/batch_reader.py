"""A batch of topics: ranges of offsets that are fixed when the query is planned, read by tasks."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kohort.client.columns import decode_batches
from kohort.client.errors import BrokerError
from kohort.pipeline.brokers import Brokers
from kohort.pipeline.fetching import fetch_range
from kohort.pipeline.options import ReadOptions
from kohort.pipeline.ranges import (
    OffsetRange,
    check_range,
    chosen_partitions,
    log_ends,
    offsets_at,
    task_ranges,
)
from kohort.pipeline.rows import CHUNK_BYTES, RowBuilder
from kohort.pipeline.typed_values import value_decoder
from kohort.pipeline.worker import spare_collections
from kohort.protocol.errors import ErrorCode, WireError


class BatchReader(DataSourceReader):
    """Reads a range of offsets that is fixed when the query is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the ranges. Raises: OptionError, DataLossError, KohortError."""
        options = self._options
        with Brokers(options.servers, options.timeout_ms) as brokers:
            chosen = chosen_partitions(brokers, options.topics)
            ends = log_ends(brokers, chosen, read_committed=options.read_committed)
            starting = offsets_at(brokers, options, options.starting, ends)
            ending = offsets_at(brokers, options, options.ending, ends)
        loses = options.fail_on_data_loss
        checked = [
            (each, *check_range(each, starting[each], ending[each], ends[each], fail_on_data_loss=loses))
            for each in chosen
        ]
        return list(task_ranges(checked, options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range. Raises: DataLossError, KohortError."""
        return read_range(self._options, self._schema, partition)


def read_range(
    options: ReadOptions, schema: StructType, partition: InputPartition
) -> Iterator[pa.RecordBatch]:
    """Yield a range's records in batches of some megabytes. Raises: DataLossError, KohortError."""
    if not isinstance(partition, OffsetRange):
        return  # Spark's own empty partition, when there was none to read.
    spare_collections()
    decoder = value_decoder(schema, options)
    builder = RowBuilder(schema, partition.topic, partition.partition, decoder)
    for fetched in fetch_range(options, partition):
        decoded = decode_batches(
            fetched.batches,
            fetch_offset=fetched.position,
            check_crcs=options.check_crcs,
            aborted=fetched.aborted if options.read_committed else None,
            max_chunk_bytes=CHUNK_BYTES,
        )
        try:
            for columns in decoded:
                if len(columns):
                    yield builder.build(columns, partition.end)
        except WireError as error:
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{partition}: {error}") from error
