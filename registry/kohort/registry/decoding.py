"""Records that Confluent's serializers wrote, as JSON for people: Avro, JSON Schema and Protocol Buffers.

The data begins with a zero and the id of its schema. That of Protocol Buffers then says which message it is.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from kohort.client.avro import Avro
from kohort.client.errors import KohortError, MissingExtraError
from kohort.client.protobuf import read_indexes
from kohort.client.schema_header import HEADER, MAGIC
from kohort.client.schema_registry import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from kohort.registry.errors import InvalidSchema
from kohort.registry.protobuf.schema import ProtobufSchema, parse_protobuf

NOT_FOUND = 404
INSTALL = "pip install 'kohort[registry]'"
Decode = Callable[[bytes], str]


class UndecodableError(KohortError):
    """The data does not fit its schema."""


class SchemaDecoder:
    """Decodes what begins with the id of a schema; each schema is asked for once. Any thread may use it."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._decoders: dict[int, Decode | None] = {}

    def json_of(self, data: bytes) -> str | None:
        """Return data as JSON; None for what has no id of a schema, or one that the registry does not know.

        Raises: UndecodableError, SchemaRegistryError, NetworkError; MissingExtraError without fastavro.
        """
        if len(data) < HEADER.size or data[0] != MAGIC:
            return None
        schema_id = HEADER.unpack_from(data)[1]
        if schema_id not in self._decoders:
            self._decoders[schema_id] = self._decoder(schema_id)
        decode = self._decoders[schema_id]
        try:
            return None if decode is None else decode(data)
        except (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError) as error:
            raise UndecodableError(f"it does not fit schema {schema_id}: {error}") from error

    def _decoder(self, schema_id: int) -> Decode | None:
        try:
            schema = self._registry.schema(schema_id)
        except SchemaRegistryError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        if schema.kind == "PROTOBUF":
            return _protobuf_decoder(schema_id, schema)
        if schema.kind == "JSON":
            return _json_text
        avro = Avro(self._registry)
        return lambda data: json.dumps(avro(data), ensure_ascii=False, default=_plain)


def _json_text(data: bytes) -> str:
    text = data[HEADER.size :].decode()
    json.loads(text)
    return text


def _protobuf_decoder(schema_id: int, schema: RegisteredSchema) -> Decode:
    try:
        parsed: ProtobufSchema = parse_protobuf(schema.text, schema.dependencies, is_new=False)
    except ImportError as error:
        raise MissingExtraError(f"a schema of {schema.kind} needs {error}: {INSTALL}") from error
    except InvalidSchema as error:
        raise UndecodableError(f"schema {schema_id} cannot be read: {error}") from error

    def decode(data: bytes) -> str:
        indexes, begin = read_indexes(data, HEADER.size)
        return parsed.json_of(indexes, data[begin:])

    return decode


def _plain(value: Any) -> object:
    """Return what JSON has for a value of Avro: bytes as text or base 64, times and decimals as text."""
    if not isinstance(value, bytes):
        return value.isoformat() if hasattr(value, "isoformat") else str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
