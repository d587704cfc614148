"""Requests to a registry, by nothing but the standard library."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Told(NamedTuple):
    """An answer."""

    status: int
    content: Any
    media_type: str


def ask(url: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Told:
    """Return a registry's answer."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, content, headers or {})
        response = connection.getresponse()
        return Told(response.status, json.loads(response.read()), response.headers["content-type"])
    finally:
        connection.close()


def register(url: str, subject: str, schema: Any, **more: Any) -> int:
    """Return the id of a schema that is registered now."""
    told = ask(url, "POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema), **more})
    assert told.status == 200, told
    found = told.content["id"]
    assert isinstance(found, int)
    return found
