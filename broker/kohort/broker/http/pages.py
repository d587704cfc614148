"""The routes, and hypercorn under trio to serve them. Errors are JSON as well."""

import logging
import socket
import time

import msgspec
from hypercorn.config import Config
from hypercorn.trio import serve as serve_app
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kohort.broker.http.groups import describe_group, list_groups
from kohort.broker.http.metrics import MetricsPage
from kohort.broker.http.view import View

KEEP_ALIVE_SECONDS = 75.0
READ_TIMEOUT_SECONDS = 30
REQUEST_BYTES_MAX = 64 * 1024
OFFLINE_SHOWN = 20


async def serve(view: View, sock: socket.socket) -> None:
    """Serve the pages on a listening socket until cancelled; the socket stays the caller's."""
    config = Config()
    config.bind = [f"fd://{sock.dup().detach()}"]  # hypercorn closes the descriptor that it is given.
    config.errorlog = logging.getLogger("kohort.http")
    config.loglevel = "WARNING"
    config.alpn_protocols = ["http/1.1"]
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.read_timeout = READ_TIMEOUT_SECONDS
    config.h11_max_incomplete_size = REQUEST_BYTES_MAX
    config.include_server_header = False
    await serve_app(application(view), config)  # type: ignore[arg-type]  # starlette's and hypercorn's scopes differ


def application(view: View) -> Starlette:
    """Return the application that shows `view`."""
    pages = Pages(view)
    return Starlette(
        routes=[
            Route("/metrics", pages.metrics, methods=["GET"]),
            Route("/health/live", pages.live, methods=["GET"]),
            Route("/health/ready", pages.ready, methods=["GET"]),
            Route("/api/v1/groups", pages.groups, methods=["GET"]),
            Route("/api/v1/groups/{group_id:path}", pages.group, methods=["GET"]),
        ],
        exception_handlers={HTTPException: http_error, Exception: server_error},
    )


class Pages:
    """One method a route."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._metrics = MetricsPage(view)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics in the format that the client asks for."""
        page, content_type = await self._metrics.page(request.headers.get("accept", ""))
        return Response(page, media_type=content_type)

    async def live(self, request: Request) -> Response:
        """Return that the loop runs: this answer is the proof."""
        return json_response({"status": "live"})

    async def ready(self, request: Request) -> Response:
        """Return whether every group and every partition can be asked, and if not, why."""
        reasons = not_ready(self._view)
        status = "not ready" if reasons else "ready"
        return json_response({"status": status, "reasons": reasons}, 503 if reasons else 200)

    async def groups(self, request: Request) -> Response:
        """Return all groups in short."""
        return json_response(list_groups(self._view))

    async def group(self, request: Request) -> Response:
        """Return one group with its members, offsets and rebalances."""
        group_id = request.path_params["group_id"]
        group = self._view.group(group_id)
        if group is None:
            return json_response({"error": f"there is no group {group_id}"}, 404)
        return json_response(await describe_group(self._view, group, time.time_ns() // 1_000_000))


def not_ready(view: View) -> list[str]:
    """Return why the broker cannot answer everything, in words; nothing where it can."""
    reasons = [f"__consumer_offsets-{index}: its groups are being loaded" for index in view.loading()]
    offline = [each for each in view.partitions() if each.offline is not None]
    reasons += [f"{each.topic}-{each.index}: offline: {each.offline}" for each in offline[:OFFLINE_SHOWN]]
    if len(offline) > OFFLINE_SHOWN:
        reasons.append(f"{len(offline) - OFFLINE_SHOWN} more partitions are offline")
    return reasons


def json_response(content: object, status: int = 200) -> Response:
    """Return `content` as JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def http_error(request: Request, error: Exception) -> Response:
    """Return an error of the client, such as 404 or 405."""
    assert isinstance(error, HTTPException)
    response = json_response({"error": error.detail}, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def server_error(request: Request, error: Exception) -> Response:
    """Return an error of ours; starlette raises it again, and so it is logged."""
    return json_response({"error": "internal error"}, 500)
