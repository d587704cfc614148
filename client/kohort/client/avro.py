"""Keys and values in Avro as Confluent's serializers write them: a zero, the id of the schema, the data."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

from kohort.client.errors import MissingExtraError
from kohort.client.schema_header import HEADER, Schema, id_in_header, text_of, with_header
from kohort.client.schema_registry import RegisteredSchema, SchemaRegistry

VALUE = "value"
"""The field of the record that `parse_avro` returns."""


def parse_avro(
    schema: RegisteredSchema, named: dict[str, Any], prepare: Callable[[Any], Any] = lambda contents: contents
) -> Any:
    """Return a parsed schema of a record with only a `value` of this schema. Its bytes are the value's.

    fastavro keeps the schemas that others refer to with a parsed record. It forgets them with a union, an
    array, a map or a name. `named` gets all schemas that have a name. `prepare` changes each decoded text
    before it is parsed. Raises: MissingExtraError without fastavro, fastavro's errors.
    """
    avro = require_fastavro()
    for _, text in schema.dependencies:
        avro.parse_schema(prepare(json.loads(text)), named)
    value = prepare(json.loads(schema.text))
    return avro.parse_schema(
        {"type": "record", "name": "kohort_value", "fields": [{"name": VALUE, "type": value}]}, named
    )


class Avro:
    """A deserializer of Avro: `Consumer("orders", value_deserializer=Avro("http://127.0.0.1:8081"))`.

    Records become dictionaries. The schema of a record is requested from the registry, once for
    each id, in the thread that polls. With a `reader_schema`, values have its fields: missing
    ones have its defaults. `serializer` makes a producer's serializer. Any thread may use it.
    Raises: MissingExtraError without fastavro, ConfigurationError for an invalid URL.
    """

    def __init__(self, registry: str | SchemaRegistry, *, reader_schema: Schema | None = None) -> None:
        self._avro = require_fastavro()
        self.registry = SchemaRegistry(registry) if isinstance(registry, str) else registry
        reader = None if reader_schema is None else RegisteredSchema(text_of(reader_schema))
        self._reader = None if reader is None else parse_avro(reader, {})
        self._writers: dict[int, Any] = {}

    def __call__(self, data: bytes) -> object:
        """Return the decoded value. Raises: ValueError for invalid bytes, KohortError."""
        schema_id = id_in_header(data, "Avro")
        writer = self._writers.get(schema_id)
        if writer is None:
            writer = self._writers[schema_id] = parse_avro(self.registry.schema(schema_id), {})
        record = self._avro.schemaless_reader(BytesIO(data[HEADER.size :]), writer, self._reader)
        return record[VALUE]

    def serializer(self, subject: str, schema: Schema, *, register: bool = True) -> "AvroSerializer":
        """Return a serializer: `Producer(value_serializer=avro.serializer("orders-value", schema))`.

        The first value registers the schema under the subject; without `register` it has to be there.
        """
        return AvroSerializer(self, subject, text_of(schema), register=register)


class AvroSerializer:
    """Makes bytes of values that fit its schema."""

    def __init__(self, avro: Avro, subject: str, text: str, *, register: bool) -> None:
        self._avro = avro
        self._subject = subject
        self._text = text
        self._may_register = register
        self._id: int | None = None
        self._schema: Any = None

    def __call__(self, value: object) -> bytes:
        """Return the bytes of a value. Raises: fastavro's errors where it does not fit, KohortError."""
        if self._id is None:
            registry = self._avro.registry
            ask = registry.register if self._may_register else registry.look_up
            schema_id = ask(self._subject, self._text)
            self._schema = parse_avro(registry.schema(schema_id), {})
            self._id = schema_id
        target = BytesIO()
        self._avro._avro.schemaless_writer(target, self._schema, {VALUE: value})
        return with_header(self._id, target.getvalue())


def require_fastavro() -> Any:
    """Return the library. Raises: MissingExtraError that says what to install."""
    try:
        import fastavro  # noqa: PLC0415  # It may not be here.
    except ImportError as error:
        raise MissingExtraError(f"Avro needs fastavro ({error}): pip install 'kohort[registry]'") from error
    return fastavro
