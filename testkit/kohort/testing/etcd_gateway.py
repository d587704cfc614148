"""What a server of etcd's JSON gateway answers from a `KeyStore`."""

from typing import Any

from kohort.broker.etcd.key_store import KeyStore, Refused
from kohort.broker.etcd.messages import Json

STATUS = {5: 404, 12: 501}  # HTTP's for gRPC's NOT_FOUND and UNIMPLEMENTED.
HTTP_OK, BAD_REQUEST = 200, 400


def answered(store: KeyStore, path: str, form: Json, now: float) -> tuple[int, Json]:
    """Return the HTTP status and the answer of a call. `now` is in seconds on the clock of the leases."""
    try:
        return HTTP_OK, store.answer(path, form, now)
    except Refused as refused:
        return STATUS.get(refused.code, BAD_REQUEST), {"code": refused.code, "message": str(refused)}


def watched(store: KeyStore, form: dict[str, Any]) -> tuple[Json | None, bool]:
    """Return what is new to a watch, None if nothing is, and whether the watch goes on.

    `form` is the watch's request. Its start revision moves on.
    """
    try:
        news, form["start_revision"] = store.news(form)
    except Refused as refused:
        compacted = str(store.compacted)
        return {"canceled": True, "cancel_reason": str(refused), "compact_revision": compacted}, False
    return news, True
