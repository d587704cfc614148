"""The requests and answers of etcd, as values, and their JSON form.

Keys and values are base64 there, 64-bit numbers are strings, and zero, empty or false values are omitted.
Source: etcd's rpc.proto; grpc-gateway's mapping of protobuf to JSON.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Json = Mapping[str, Any]
"""A decoded JSON object."""

Target = Literal["CREATE", "MOD"]


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as etcd keeps it; revisions count all changes of the whole store."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """Some keys as of one revision; `more` says whether the limit has cut them short."""

    revision: int
    items: tuple[KeyValue, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition of a transaction: the revision that created a key, or that changed it last, 0 for none."""

    key: bytes
    target: Target
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """Give a key a value; under a lease it goes when the lease does."""

    key: bytes
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a key, or all from it to below `end`."""

    key: bytes
    end: bytes = b""


@dataclass(frozen=True, slots=True)
class Range:
    """Read a key, or those from it to below `end`; at a revision, 0 for now; `limit` 0 for all."""

    key: bytes
    end: bytes = b""
    limit: int = 0
    revision: int = 0


Operation = Put | Delete | Range


@dataclass(frozen=True, slots=True)
class Transacted:
    """The result of a transaction, with the results of its reads."""

    succeeded: bool
    revision: int
    found: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was granted; etcd may give a longer time than was asked for."""

    id: int
    ttl_seconds: int


@dataclass(frozen=True, slots=True)
class Change:
    """A key was put, or is gone: then `item` has its name and the revision alone."""

    item: KeyValue
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Watched:
    """One message of a watch: the changes of whole revisions, up to and including `revision`."""

    revision: int
    changes: tuple[Change, ...]


def prefix_end(prefix: bytes) -> bytes:
    """Return the end of the range of all keys that begin with `prefix`, which is not empty."""
    stripped = prefix.rstrip(b"\xff")
    assert stripped, "a prefix of 0xff alone has no end"
    return stripped[:-1] + bytes([stripped[-1] + 1])


def not_there(key: bytes) -> Compare:
    """Return the comparison that holds while there is no such key."""
    return Compare(key, "CREATE", 0)


def created_at(key: bytes, revision: int) -> Compare:
    """Return the condition that the key is still the one created at `revision`."""
    return Compare(key, "CREATE", revision)


def unchanged_since(key: bytes, revision: int) -> Compare:
    """Return the comparison that holds while `revision` is the last that has changed the key."""
    return Compare(key, "MOD", revision)


# -- to JSON ----------------------------------------------------------------------------------------------


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def range_json(asked: Range) -> dict[str, object]:
    """Return the form of a RangeRequest."""
    form: dict[str, object] = {"key": _text(asked.key)}
    if asked.end:
        form["range_end"] = _text(asked.end)
    if asked.limit:
        form["limit"] = str(asked.limit)
    if asked.revision:
        form["revision"] = str(asked.revision)
    return form


def put_json(asked: Put) -> dict[str, object]:
    """Return the form of a PutRequest."""
    form: dict[str, object] = {"key": _text(asked.key), "value": _text(asked.value)}
    if asked.lease:
        form["lease"] = str(asked.lease)
    return form


def delete_json(asked: Delete) -> dict[str, object]:
    """Return the form of a DeleteRangeRequest."""
    form: dict[str, object] = {"key": _text(asked.key)}
    if asked.end:
        form["range_end"] = _text(asked.end)
    return form


def txn_json(
    compares: Sequence[Compare], success: Sequence[Operation], failure: Sequence[Operation]
) -> dict[str, object]:
    """Return the form of a TxnRequest."""
    return {
        "compare": [_compare_json(each) for each in compares],
        "success": [_operation_json(each) for each in success],
        "failure": [_operation_json(each) for each in failure],
    }


def _compare_json(compare: Compare) -> dict[str, object]:
    name = "create_revision" if compare.target == "CREATE" else "mod_revision"
    return {
        "key": _text(compare.key),
        "target": compare.target,
        "result": "EQUAL",
        name: str(compare.revision),
    }


def _operation_json(operation: Operation) -> dict[str, object]:
    match operation:
        case Put():
            return {"request_put": put_json(operation)}
        case Delete():
            return {"request_delete_range": delete_json(operation)}
        case Range():
            return {"request_range": range_json(operation)}


def watch_json(asked: Range) -> dict[str, object]:
    """Return the form of a WatchRequest from the revision of `asked` on."""
    create: dict[str, object] = {"key": _text(asked.key), "start_revision": str(asked.revision)}
    if asked.end:
        create["range_end"] = _text(asked.end)
    return {"create_request": create}


# -- from JSON --------------------------------------------------------------------------------------------


def revision_of(answer: Json) -> int:
    """Return the revision that the answer was made at."""
    return int(answer.get("header", {}).get("revision", 0))


def key_value_of(form: Json) -> KeyValue:
    """Return the key and what belongs to it."""
    return KeyValue(
        b64decode(form["key"]),
        b64decode(form.get("value", "")),
        int(form.get("create_revision", 0)),
        int(form.get("mod_revision", 0)),
        int(form.get("lease", 0)),
    )


def found_of(answer: Json) -> Found:
    """Return the result of a RangeResponse; within a transaction it has no header."""
    items = tuple(map(key_value_of, answer.get("kvs", ())))
    return Found(revision_of(answer), items, bool(answer.get("more")))


def transacted_of(answer: Json) -> Transacted:
    """Return how a transaction ended."""
    responses = answer.get("responses", ())
    found = tuple(found_of(each["response_range"]) for each in responses if "response_range" in each)
    return Transacted(bool(answer.get("succeeded")), revision_of(answer), found)


def watched_of(result: Json) -> Watched:
    """Return the content of a WatchResponse with events.

    Its header may be ahead of its events: others may still be under way.
    """
    changes = tuple(
        Change(key_value_of(each["kv"]), each.get("type") == "DELETE") for each in result["events"]
    )
    return Watched(changes[-1].item.mod_revision, changes)
