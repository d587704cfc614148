"""The broker over HTTP: metrics, health, and the groups as JSON.

Only `serve_http` stands here; the libraries behind it are imported when the first client comes.
"""

from kohort.broker.http.server import LISTEN_BACKLOG, serve_http

__all__ = ["LISTEN_BACKLOG", "serve_http"]
