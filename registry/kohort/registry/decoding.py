"""Records that Confluent's serializers wrote, as JSON for people: Avro, JSON Schema and Protocol Buffers.

The data begins with a zero and the id of its schema. That of Protocol Buffers then says which message it is.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

from kohort.client.avro import Avro, require_fastavro
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
        schema_id = schema_id_of(data)
        if schema_id is None:
            return None
        if schema_id not in self._decoders:
            self._decoders[schema_id] = self._decoder(schema_id)
        decode = self._decoders[schema_id]
        return None if decode is None else decode(data)

    def _decoder(self, schema_id: int) -> Decode | None:
        try:
            return decoder_of(schema_id, self._registry)
        except SchemaRegistryError as error:
            if error.status == NOT_FOUND:
                return None
            raise


def schema_id_of(data: bytes) -> int | None:
    """Return the id of the schema that data begins with; None for other data."""
    if len(data) < HEADER.size or data[0] != MAGIC:
        return None
    return int(HEADER.unpack_from(data)[1])


def decoder_of(schema_id: int, registry: SchemaRegistry) -> Decode:
    """Return a function that returns data of this schema as JSON. It raises UndecodableError.

    Raises: UndecodableError, SchemaRegistryError, NetworkError; MissingExtraError without fastavro.
    """
    schema = registry.schema(schema_id)
    if schema.kind == "PROTOBUF":
        decode = _protobuf_decoder(schema_id, schema)
    elif schema.kind == "JSON":
        decode = _json_text
    else:
        decode = _avro_decoder(registry)

    def checked(data: bytes) -> str:
        try:
            return decode(data)
        except RecursionError:
            raise UndecodableError("it is nested too deeply") from None
        except EOFError:
            raise UndecodableError(f"it does not fit schema {schema_id}: it ends too early") from None
        except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
            raise UndecodableError(f"it does not fit schema {schema_id}: {error}") from error

    return checked


def _avro_decoder(registry: SchemaRegistry) -> Decode:
    avro = Avro(registry)
    invalid_schema = require_fastavro().schema.SchemaParseException

    def decode(data: bytes) -> str:
        try:
            value = avro(data)
        except invalid_schema as error:
            raise ValueError(f"the schema is invalid: {error}") from None
        return json.dumps(value, ensure_ascii=False, default=_plain)

    return decode


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
