"""The broker's pages, asked for over bare sockets or as a browser would."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from http.client import HTTPConnection

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Page:
    """One answer over HTTP."""

    status: int
    headers: dict[str, str]
    text: str


def page(http: str, path: str, host: str | None = None) -> Page:
    """Return what is answered to a GET. Raises: OSError."""
    connection = HTTPConnection(http, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Page(answer.status, headers, answer.read().decode())
    finally:
        connection.close()


def bare(http: str) -> socket.socket:
    """Return a connection on which nothing has been said."""
    host, port = http.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
