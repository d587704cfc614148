"""Records of `__consumer_offsets` as JSON, in the form in which Kafka's dump tool prints them."""

import json
from base64 import b64encode
from uuid import UUID

from kohort.protocol.errors import WireError
from kohort.protocol.offsets_topic import UnknownKey, decode_record
from kohort.protocol.schema import Message
from kohort.storage.layout import format_uuid

DELETED = "<DELETE>"


def decode_offsets_record(key: bytes | None, value: bytes | None) -> dict[str, str]:
    """Return `key` and `payload` as text; the text of an unknown record says why."""
    if key is None:
        return {"key": "<none>", "payload": "<none>"}
    try:
        found = decode_record(key, value)
        if isinstance(found, UnknownKey):
            return {"key": f"<type {found.record_type}>", "payload": f"<{len(value or b'')} bytes>"}
        record_type = int.from_bytes(key[:2], "big")
        text = _json({"type": str(record_type), "data": _fields(found.key, 0)})
        if value is None or found.value is None:
            return {"key": text, "payload": DELETED}
        version = int.from_bytes(value[:2], "big", signed=True)
        data = _fields(found.value, version)
        return {"key": text, "payload": _json({"version": str(version), "data": data})}
    except WireError as error:
        return {"key": f"<{error}>", "payload": f"<{len(value or b'')} bytes>"}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _fields(message: Message, version: int) -> dict[str, object]:
    """Return the fields that a message has in `version`, under Kafka's names."""
    return {
        _camel_case(each.name): _plain(getattr(message, each.name), version)
        for each in type(message).declaration().fields
        if version in each.versions
    }


def _plain(value: object, version: int) -> object:
    if isinstance(value, Message):
        return _fields(value, version)
    if isinstance(value, (tuple, list)):
        return [_plain(each, version) for each in value]
    if isinstance(value, (bytes, memoryview)):
        return b64encode(value).decode()
    if isinstance(value, UUID):
        return format_uuid(value)
    return value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
