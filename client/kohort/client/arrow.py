"""Columns as Arrow has them. Needs pyarrow and numpy, the extra `arrow`, and is imported only when used."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kohort.client.batch_table import Bools
from kohort.client.columns import BinaryColumn, RecordColumns
from kohort.client.values import TopicPartition

HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(HEADER), nullable=False),
    ]
)


def record_table(chunks: Sequence[tuple[TopicPartition, RecordColumns]]) -> pa.Table:
    """Return the records of some fetches as one table, in this order. The values are not copied."""
    batches = [_record_batch(partition, columns) for partition, columns in chunks]
    return pa.Table.from_batches(batches, SCHEMA).unify_dictionaries()


def _record_batch(partition: TopicPartition, columns: RecordColumns) -> pa.RecordBatch:
    count = len(columns)
    of_topic = np.zeros(count, np.int32)
    times = columns.timestamps_ms
    no_time = times < 0
    headers = pa.StructArray.from_arrays(
        [_binary(columns.header_names, pa.string()), _binary(columns.header_values, pa.binary())],
        fields=list(HEADER),
    )
    arrays = [
        pa.DictionaryArray.from_arrays(of_topic, pa.array([partition.topic], pa.string())),
        pa.array(np.full(count, partition.partition, np.int32)),
        pa.array(columns.offsets),
        pa.array(times, mask=no_time if no_time.any() else None).cast(pa.timestamp("ms", "UTC")),
        _binary(columns.keys, pa.binary()),
        _binary(columns.values, pa.binary()),
        pa.ListArray.from_arrays(pa.array(columns.header_offsets), headers, type=pa.list_(HEADER)),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _binary(column: BinaryColumn, kind: pa.DataType) -> pa.Array:
    buffers = [_bitmap(column.valid), pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, len(column), buffers)


def _bitmap(valid: Bools | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
