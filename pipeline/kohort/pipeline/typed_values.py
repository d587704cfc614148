"""Values as columns: `value` by a schema, from a schema registry or given, in the source itself.

The column `value` has the schema's type. A value that does not fit ends no query: the column `undecoded` has
its bytes, and null for other values. The schema to read with is fixed when a query is planned, and is kept in
the column's metadata. With a registry each value begins with Confluent's header, which names the schema that
it was written with. It is converted to the schema to read with, also if its own schema was registered while a
stream runs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from kohort.client.avro import VALUE as WRAPPED
from kohort.client.avro import parse_avro, require_fastavro
from kohort.client.errors import KohortError
from kohort.client.schema_header import HEADER, MAGIC
from kohort.client.schema_registry import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from kohort.pipeline.avro_types import AvroTypes, Convert, without_unknown_logic
from kohort.pipeline.brokers import Retries
from kohort.pipeline.errors import OptionError
from kohort.pipeline.json_types import json_types
from kohort.pipeline.options import AVRO, JSON, ReadOptions, ValueOptions

VALUE, UNDECODED = "value", "undecoded"
_SCHEMA = "kohort.schema"
"""The entry of the column's metadata."""
_NOT_FOUND = 404
_MISFITS = (
    ValueError,
    TypeError,
    EOFError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    struct.error,
    pa.ArrowException,
)
"""Errors of bytes that do not fit their schema."""


class Reading(NamedTuple):
    """A schema to read with: its type in Spark, and how its values are converted for Arrow."""

    schema: Any
    kind: DataType
    convert: Convert | None


def typed_columns(columns: StructType, options: ReadOptions) -> StructType:
    """Return the columns with a typed `value`, and with `undecoded`; without a schema as they are.

    Raises: OptionError, MissingExtraError, SchemaRegistryError, NetworkError.
    """
    if options.values is None:
        return columns
    schema = _schema_to_read(options.values, options.timeout_ms)
    typed = StructField(VALUE, parse(schema).kind, metadata={_SCHEMA: json.dumps(schema)})
    fields = [typed if each.name == VALUE else each for each in columns]
    return StructType([*fields, StructField(UNDECODED, BinaryType())])


def value_decoder(columns: StructType, options: ReadOptions) -> ValueDecoder | None:
    """Return a decoder of values for these columns; None if no column needs it. Raises: as above."""
    if options.values is None or (UNDECODED not in columns.names and not _is_typed(columns)):
        return None
    field = next((each for each in columns if each.name == VALUE), None)
    pinned = None if field is None else (field.metadata or {}).get(_SCHEMA)
    if pinned is None:
        schema = _schema_to_read(options.values, options.timeout_ms)
    else:
        text, dependencies, kind = json.loads(pinned)
        schema = RegisteredSchema(text, tuple((name, used) for name, used in dependencies), kind)
    return ValueDecoder(schema, options.values.registry, options.timeout_ms)


def _is_typed(columns: StructType) -> bool:
    return any(each.name == VALUE and each.dataType != BinaryType() for each in columns)


def _schema_to_read(values: ValueOptions, timeout_ms: int) -> RegisteredSchema:
    if values.schema is not None:
        return RegisteredSchema(values.schema, (), values.form)
    registry = SchemaRegistry(*values.registry)
    try:
        return _ask(partial(registry.latest, values.subject), timeout_ms)
    except SchemaRegistryError as error:
        if error.status != _NOT_FOUND:
            raise
        raise OptionError(
            f"the schema registry has no subject {values.subject!r} ({error}):"
            " give value_subject or value_schema"
        ) from None


def _ask(question: Callable[[], RegisteredSchema], timeout_ms: int) -> RegisteredSchema:
    """Return the registry's answer. Raises: SchemaRegistryError, NetworkError once the time is over."""
    retries = Retries(timeout_ms)
    while True:
        try:
            return question()
        except KohortError as error:
            retries.pause_after(error)


def parse(schema: RegisteredSchema) -> Reading:
    """Return a schema to read with. Raises: OptionError, MissingExtraError."""
    if schema.kind == JSON:
        try:
            return Reading(None, *json_types(json.loads(schema.text)))
        except ValueError as error:
            raise OptionError(f"the schema of values is no JSON: {error}") from None
    if schema.kind != AVRO:
        raise OptionError(f"values by a schema of {schema.kind} cannot be columns: Avro and JSON Schema can")
    try:
        parsed, named = _parse_avro(schema)
    except (ValueError, KeyError, TypeError, require_fastavro().schema.SchemaParseException) as error:
        raise OptionError(f"the schema of values is no schema of Avro: {error!r}") from None
    return Reading(parsed, *AvroTypes(named).of(parsed["fields"][0]["type"]))


def _parse_avro(schema: RegisteredSchema) -> tuple[Any, dict[str, Any]]:
    """Return the schema, in a record, and all schemas that have a name."""
    named: dict[str, Any] = {}
    return parse_avro(schema, named, without_unknown_logic), named


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded values of some records, and the bytes of the values that do not fit."""

    values: pa.Array
    undecoded: pa.Array


class ValueDecoder:
    """Decodes values by one schema to read with, in one task."""

    def __init__(self, schema: RegisteredSchema, registry: tuple[str, ...], timeout_ms: int) -> None:
        self._reading = parse(schema)
        self._kind = schema.kind
        self._registry = SchemaRegistry(*registry) if registry else None
        self._timeout_ms = timeout_ms
        self._writers: dict[int, Any] = {}
        """By id; None for an id that has no schema of Avro."""
        self._misfits: tuple[type[Exception], ...] = _MISFITS
        self._faults: tuple[type[Exception], ...] = ()
        """Errors of the schema's preparation, not of the bytes."""
        self._fastavro: Any = require_fastavro() if self._kind == AVRO else None
        if self._fastavro is not None:
            self._misfits = (*_MISFITS, self._fastavro.read.SchemaResolutionError)
            self._faults = (self._fastavro.schema.UnknownType,)

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the values where a query does not name another."""
        return to_arrow_type(self._reading.kind, timezone="UTC")

    def decode(self, values: pa.Array, kind: pa.DataType) -> Decoded:
        """Return the decoded values, of an Arrow type. Raises: SchemaRegistryError, NetworkError."""
        given = values.to_pylist()
        records = [None if each is None else self._record(each) for each in given]
        try:
            found = pa.array([None if each is _MISFIT else each for each in records], type=kind)
        except self._misfits:
            records = [each if _fits(each, kind) else _MISFIT for each in records]
            found = pa.array([None if each is _MISFIT else each for each in records], type=kind)
        left = [data if each is _MISFIT else None for data, each in zip(given, records, strict=True)]
        return Decoded(found, pa.array(left, type=pa.binary()))

    def _record(self, data: bytes) -> Any:
        """Return the decoded value, `_MISFIT` if it does not fit."""
        try:
            found = self._json(data) if self._kind == JSON else self._avro(data)
            convert = self._reading.convert
            return found if convert is None or found is None or found is _MISFIT else convert(found)
        except self._faults:
            raise
        except self._misfits:
            return _MISFIT

    def _json(self, data: bytes) -> Any:
        if self._registry is None:
            return json.loads(data)
        return json.loads(data[HEADER.size :]) if data[:1] == b"\0" else _MISFIT

    def _avro(self, data: bytes) -> Any:
        text = BytesIO(data)
        writer = self._reading.schema
        if self._registry is not None:
            magic, schema_id = HEADER.unpack(text.read(HEADER.size))
            writer = self._writer(schema_id) if magic == MAGIC else None
            if writer is None:
                return _MISFIT
        found = self._fastavro.schemaless_reader(text, writer, self._reading.schema)
        return _MISFIT if text.read(1) else found[WRAPPED]

    def _writer(self, schema_id: int) -> Any:
        """Return the schema of an id; None if it is no schema of Avro, or unknown to the registry."""
        if schema_id not in self._writers:
            assert self._registry is not None, "values without a header have no id"
            try:
                schema = _ask(partial(self._registry.schema, schema_id), self._timeout_ms)
            except SchemaRegistryError as error:
                if error.status != _NOT_FOUND:
                    raise
                self._writers[schema_id] = None
            else:
                self._writers[schema_id] = _parsed_writer(schema)
        return self._writers[schema_id]


_MISFIT: Any = object()
"""Stands for a value that does not fit."""


def _parsed_writer(schema: RegisteredSchema) -> Any:
    if schema.kind != AVRO:
        return None
    try:
        return _parse_avro(schema)[0]
    except (*_MISFITS, require_fastavro().schema.SchemaParseException):
        return None


def _fits(record: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([None if record is _MISFIT else record], type=kind)
    except _MISFITS:
        return False
    return record is not _MISFIT
