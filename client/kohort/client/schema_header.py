"""The five bytes in front of data that Confluent's serializers write: a zero, and the id of the schema."""

import json
from collections.abc import Mapping
from struct import Struct
from typing import Any

MAGIC = 0
HEADER = Struct(">bi")
Schema = str | Mapping[str, Any]
"""A schema as JSON text, or as the decoded value."""


def with_header(schema_id: int, data: bytes) -> bytes:
    """Return data with the id of its schema in front."""
    return HEADER.pack(MAGIC, schema_id) + data


def id_in_header(data: bytes, kind: str) -> int:
    """Return the id of the schema of data. Raises: ValueError for data without one."""
    if len(data) < HEADER.size or data[0] != MAGIC:
        raise ValueError(f"this is no {kind} with the id of a schema: it begins with {data[:5]!r}")
    return int(HEADER.unpack_from(data)[1])


def text_of(schema: Schema) -> str:
    """Return a schema as JSON text."""
    return schema if isinstance(schema, str) else json.dumps(schema)
