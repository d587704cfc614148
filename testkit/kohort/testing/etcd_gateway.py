"""What a server of etcd's JSON gateway answers from an `EtcdStore`."""

from typing import Any

from kohort.broker.etcd.calls import UNAVAILABLE
from kohort.broker.etcd.key_store import NOT_FOUND, Refused
from kohort.broker.etcd.messages import Json
from kohort.testing.etcd_store import EtcdStore

STATUS = {5: 404, 12: 501, 14: 503}  # HTTP's for gRPC's NOT_FOUND, UNIMPLEMENTED and UNAVAILABLE.
HTTP_OK, BAD_REQUEST = 200, 400
MEMBER = {"cluster_id": "1", "member_id": "1", "raft_term": "2"}
PATHS = frozenset({
    *("kv/range", "kv/put", "kv/deleterange", "kv/txn", "kv/compaction", "maintenance/status"),
    *("lease/grant", "lease/keepalive", "lease/revoke", "lease/timetolive", "lease/leases"),
})  # fmt: skip


def answered(store: EtcdStore, path: str, form: Json, now: float) -> tuple[int, Json]:
    """Return the HTTP status and the answer of a call. `now` is in seconds on the clock of the leases."""
    path = path.replace("kv/lease/", "lease/")  # etcd has both.
    if path not in PATHS:
        return STATUS[NOT_FOUND], {"code": NOT_FOUND, "message": "Not Found"}
    try:
        return HTTP_OK, _told(store.answer(path, form, now))
    except Refused as refused:
        return STATUS.get(refused.code, BAD_REQUEST), {"code": refused.code, "message": str(refused)}


def no_quorum() -> tuple[int, Json]:
    """Return what a member answers that does not reach enough others. What was asked may be done later."""
    return STATUS[UNAVAILABLE], {"code": UNAVAILABLE, "message": "etcdserver: request timed out"}


def created(store: EtcdStore, form: Json) -> tuple[Json, bool]:
    """Return the first message of a watch, and whether the watch goes on. `form` is the watch's request."""
    message = {"header": {**MEMBER, "revision": str(store.revision)}, "created": True}
    try:
        reason = store.watch_refused(form)
    except Refused as refused:
        reason = str(refused)
    if reason is None:
        return message, True
    return {**message, "watch_id": "-1", "canceled": True, "cancel_reason": reason}, False


def watched(store: EtcdStore, form: dict[str, Any]) -> tuple[Json | None, bool]:
    """Return what is new to a watch, None if nothing is, and whether the watch goes on.

    `form` is the watch's request. Its start revision moves on.
    """
    try:
        news, form["start_revision"] = store.news(form)
    except Refused:
        return {"header": MEMBER, "canceled": True, "compact_revision": str(store.compacted)}, False
    return None if news is None else _told(news), True


def _told(answer: Json) -> Json:
    """Return an answer as etcd's gateway writes it: with its member in the header, without what is empty."""
    told = dict(_without_empty(answer))
    headed = told.get("result", told)
    headed["header"] = {**MEMBER, **headed["header"]}
    return told


def _without_empty(value: Any) -> Any:
    match value:
        case dict():
            items = ((name, _without_empty(each)) for name, each in value.items())
            return {name: each for name, each in items if each not in (0, "", "0", [], False)}
        case list() | tuple():
            return [_without_empty(each) for each in value]
    return value
