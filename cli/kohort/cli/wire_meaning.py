"""What values of Kafka's protocol mean: names of codes, moments, bits, ends of a log."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import IntEnum

from kohort.client.admin_values import ConfigSource, ElectionType, FeatureUpgrade, ResourceType
from kohort.client.share.values import AcknowledgeType
from kohort.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kohort.protocol.constructs import Span
from kohort.protocol.errors import ErrorCode
from kohort.protocol.records import Compression, ControlType
from kohort.protocol.records.header import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
)
from kohort.protocol.registry import api_of

TEXT_MAX = 120
UNLIMITED_OPERATIONS = -(2**31)
SECRET_FIELDS = frozenset(("auth_bytes", "salt", "salted_password"))
SECRET_NAMES = re.compile(r"password|secret|jaas|token|credential", re.IGNORECASE)
"""Of settings whose values are masked; which are secret, the bytes do not say."""

_Names = Mapping[int, str]


def _names(kind: type[IntEnum]) -> _Names:
    return {int(each): each.name for each in kind}


CODES, COMPRESSIONS, CONTROL_TYPES = _names(ErrorCode), _names(Compression), _names(ControlType)
ACLS = ("Acls",)
CONFIGS = ("Configs",)
NAMES: tuple[tuple[str, tuple[str, ...], _Names], ...] = (
    ("acks", (), {0: "no answer", 1: "the leader", -1: "all in-sync replicas"}),
    ("isolation_level", (), {0: "READ_UNCOMMITTED", 1: "READ_COMMITTED"}),
    ("key_type", (), {0: "GROUP", 1: "TRANSACTION", 2: "SHARE"}),
    ("resource_type", CONFIGS, _names(ResourceType)),
    ("resource_type", ("ConfigResources",), _names(ResourceType)),
    ("resource_type", ACLS, _names(AclResourceType)),
    ("resource_type_filter", ACLS, _names(AclResourceType)),
    ("pattern_type", ACLS, _names(AclPatternType)),
    ("pattern_type_filter", ACLS, _names(AclPatternType)),
    ("resource_pattern_type", ACLS, _names(AclPatternType)),
    ("operation", ACLS, _names(AclOperation)),
    ("permission_type", ACLS, _names(AclPermission)),
    ("config_operation", CONFIGS, {0: "SET", 1: "DELETE", 2: "APPEND", 3: "SUBTRACT"}),
    ("config_source", CONFIGS, _names(ConfigSource)),
    ("election_type", (), _names(ElectionType)),
    ("upgrade_type", (), _names(FeatureUpgrade)),
    ("acknowledge_types", (), _names(AcknowledgeType)),
    ("mechanism", ("Scram",), {0: "UNKNOWN", 1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}),
    ("transaction_result", (), {0: "abort", 1: "commit"}),
    ("committed", (), {0: "abort", 1: "commit"}),
    (
        "timestamp",
        ("ListOffsets",),
        {-1: "LATEST", -2: "EARLIEST", -3: "MAX_TIMESTAMP", -4: "EARLIEST_LOCAL"},
    ),
    ("replica_id", (), {-1: "a consumer", -2: "a debugger"}),
)
"""Field, words in the names of APIs that have it so, and the names of its numbers."""

NOTHING = {
    "member_epoch": {0: "joins", -1: "leaves", -2: "leaves for a while (static)"},
    "generation_id": {-1: "none"},
    "producer_id": {-1: "none"},
    "producer_epoch": {-1: "none"},
    "base_sequence": {-1: "none"},
    "partition_leader_epoch": {-1: "not known"},
    "current_leader_epoch": {-1: "not known"},
    "leader_epoch": {-1: "not known"},
    "committed_offset": {-1: "none"},
    "base_timestamp": {-1: "none"},
    "max_timestamp": {-1: "none"},
    "log_append_time_ms": {-1: "the producer's time counts"},
}


def leaf(path: str) -> str:
    """Return a field's own name, without what it stands in and without its number in an array."""
    return path.rpartition(".")[2].partition("[")[0]


def is_secret(span: Span, before: str | None) -> bool:
    """Return whether a value is masked; `before` is the name of the setting that it may be the value of."""
    name = leaf(span.path)
    return name in SECRET_FIELDS or (
        name == "value" and before is not None and bool(SECRET_NAMES.search(before))
    )


def meaning(span: Span, api_name: str, batch: Mapping[str, int]) -> str:
    """Return what a span of bytes says, in words; `batch` has the beginnings that records count from."""
    value = span.value
    if span.part == "value":
        return _delta(span, batch) or _value(span, api_name)
    if span.part == "length":
        return "null" if value == -1 else f"{_count(value, 'byte')} ({span.kind})"
    if span.part == "count":
        return "null" if value == -1 else f"{_count(value, 'element')} ({span.kind})"
    if span.part == "flag":
        return "null" if value < 0 or (span.kind == "uvarint" and not value) else "present"
    words = {"tags": f"{value} tagged fields", "tag": f"tag {value}", "size": f"{value} bytes"}
    return words.get(span.part) or str(value)


def _delta(span: Span, batch: Mapping[str, int]) -> str:
    """Return what a record's field counts to, nothing for any other field."""
    name = leaf(span.path)
    if name == "offset_delta":
        return f"{span.value}: offset {batch['base_offset'] + span.value}"
    if name == "timestamp_delta":
        return f"{span.value}: {_moment(batch['base_timestamp'] + span.value)}"
    return ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _value(span: Span, api_name: str) -> str:
    value, name = span.value, leaf(span.path)
    if isinstance(value, bool):
        return {"committed": "commit", "transaction_result": "commit"}.get(name, "true") if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        return _bytes_value(span, value)
    if not isinstance(value, int):
        return str(value)
    said = _number(name, value, api_name, span.path)
    return f"{value}: {said}" if said else str(value)


def _number(name: str, value: int, api_name: str, path: str) -> str:
    if name == "error_code":
        return CODES.get(value, "a code that kohort does not know")
    if name in ("request_api_key", "api_key"):
        found = api_of(value)
        return found.name if found is not None else "an API that kohort does not know"
    for field, words, names in NAMES:
        if field == name and (not words or any(each in api_name for each in words)):
            return names.get(value, "")
    if ".batches[" in path and name == "attributes" and ".records[" not in path.rpartition(".batches[")[2]:
        return _batch_attributes(value)
    if path.endswith(".key.type"):
        return CONTROL_TYPES.get(value, "")
    if name.endswith("_authorized_operations"):
        return "not asked for" if value == UNLIMITED_OPERATIONS else _operations(value)
    if name == "crc":
        return f"{value:#010x}"
    if name in NOTHING and value in NOTHING[name]:
        return NOTHING[name][value]
    is_moment = name.endswith(("timestamp", "timestamp_ms", "start_ms")) and value > 0
    return _moment(value) if is_moment else ""


def _batch_attributes(value: int) -> str:
    number = value & COMPRESSION_MASK
    words = [COMPRESSIONS.get(number, f"compression {number}").lower()]
    flags = (
        (LOG_APPEND_TIME_FLAG, "log append time"),
        (TRANSACTIONAL_FLAG, "transactional"),
        (CONTROL_FLAG, "control"),
        (DELETE_HORIZON_FLAG, "delete horizon"),
    )
    words += [text for flag, text in flags if value & flag]
    return ", ".join("not compressed" if each == "none" else each for each in words)


def _operations(value: int) -> str:
    return ", ".join(each.name for each in AclOperation if value >> each & 1) or "none"


def _moment(value: int) -> str:
    try:
        return datetime.fromtimestamp(value / 1_000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return ""


def _text(value: str) -> str:
    return repr(value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}...")


def _bytes_value(span: Span, value: bytes) -> str:
    if span.kind.endswith(("records", "cut short")) or not value:
        return f"{_count(len(value), 'byte')} ({span.kind})"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _count(len(value), "byte")
    return _text(text) if text.isprintable() else _count(len(value), "byte")
