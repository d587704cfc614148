"""Decoded columns as the Arrow batches that Spark takes, in the columns that a query asked for."""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kohort.client.columns import BinaryColumn, RecordColumns
from kohort.pipeline.errors import OptionError
from kohort.pipeline.kafka_options import read_as_kohort
from kohort.pipeline.typed_values import UNDECODED, VALUE, Decoded, ValueDecoder

CHUNK_BYTES = 8 << 20
"""How much plain data one Arrow batch holds, more or less."""

_TIMESTAMP_TYPE, _HEADERS = "timestampType", "headers"
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
TABLE = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField(_TIMESTAMP_TYPE, IntegerType()),
        StructField(_HEADERS, ArrayType(_HEADER)),
    ]
)
"""The columns of a table of records."""


def table_schema(options: Mapping[str, str]) -> StructType:
    """Return the columns that a query with these options gets which asks for none by name."""
    given = read_as_kohort(options)
    left_out = {
        name
        for name, option in ((_TIMESTAMP_TYPE, "include_timestamp_type"), (_HEADERS, "include_headers"))
        if str(given.get(option)).lower() != "true"
    }
    return StructType([each for each in TABLE if each.name not in left_out])


def check_schema(schema: StructType, *, is_typed: bool = False) -> StructType:
    """Return the columns that the user wants. Raises: OptionError for a column that does not exist.

    Where values are typed, `value` may have any type.
    """
    known = {each.name: each.dataType for each in TABLE}
    if is_typed:
        known[UNDECODED] = BinaryType()
    for each in schema:
        if is_typed and each.name == VALUE:
            continue
        if known.get(each.name) != each.dataType:
            there_are = ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in TABLE)
            raise OptionError(
                f"there is no column {each.name} {each.dataType.simpleString()}; there are {there_are}"
            )
    return schema


class RowBuilder:
    """Makes Arrow batches of one partition's records, in the columns of a schema."""

    def __init__(
        self, schema: StructType, topic: str, partition: int, decoder: ValueDecoder | None = None
    ) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._decoder = decoder
        self._decoded: Decoded | None = None
        self._topic = _Repeated(topic.encode())
        self._partition = partition
        self._makers: list[Callable[[RecordColumns], pa.Array]] = [
            {
                "key": lambda columns: _binary(columns.keys),
                VALUE: self._values,
                UNDECODED: self._undecoded,
                "topic": lambda columns: self._topic.times(len(columns)),
                "partition": lambda columns: pa.array(np.full(len(columns), self._partition, np.int32)),
                "offset": lambda columns: pa.array(columns.offsets),
                "timestamp": _timestamps,
                _TIMESTAMP_TYPE: lambda columns: pa.array(columns.timestamp_types),
                _HEADERS: self._headers,
            }[name]
            for name in schema.names
        ]

    def build(self, columns: RecordColumns, end: int) -> pa.RecordBatch:
        """Return the records below the offset `end`."""
        if self._decoder is not None:
            wanted = (
                self._schema.field(VALUE).type if VALUE in self._schema.names else self._decoder.arrow_type
            )
            self._decoded = self._decoder.decode(_binary(columns.values), wanted)
        batch = pa.RecordBatch.from_arrays([make(columns) for make in self._makers], schema=self._schema)
        if len(columns) and columns.offsets[-1] >= end:
            return batch.slice(0, int(np.searchsorted(columns.offsets, end)))
        return batch

    def _values(self, columns: RecordColumns) -> pa.Array:
        return _binary(columns.values) if self._decoded is None else self._decoded.values

    def _undecoded(self, columns: RecordColumns) -> pa.Array:
        return pa.nulls(len(columns), pa.binary()) if self._decoded is None else self._decoded.undecoded

    def _headers(self, columns: RecordColumns) -> pa.Array:
        """Return the headers of each record; null, as from Spark's Kafka source, where there are none."""
        kind = self._schema.field(_HEADERS).type
        names = _binary(columns.header_names).cast(pa.string())
        pairs = pa.StructArray.from_arrays(
            [names, _binary(columns.header_values)], fields=list(kind.value_type)
        )
        without = pa.array(np.diff(columns.header_offsets) == 0)
        return pa.ListArray.from_arrays(pa.array(columns.header_offsets), pairs, type=kind, mask=without)


def _binary(column: BinaryColumn) -> pa.Array:
    valid = None if column.valid is None else pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    buffers = [valid, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), len(column), buffers)


def _timestamps(columns: RecordColumns) -> pa.Array:
    times = columns.timestamps_ms
    missing = times < 0  # -1 means none in Kafka.
    mask = missing if missing.any() else None
    return pa.array(times * 1000, type=pa.timestamp("us", tz="UTC"), mask=mask)


class _Repeated:
    """A text as often as needed: the longest column so far is kept, and cut."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._column = pa.array([], pa.string())

    def times(self, count: int) -> pa.Array:
        if count > len(self._column):
            offsets = np.arange(0, (count + 1) * len(self._text), len(self._text), dtype=np.int32)[
                : count + 1
            ]
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._text * count)]
            self._column = pa.Array.from_buffers(pa.string(), count, buffers)
        return self._column.slice(0, count)
