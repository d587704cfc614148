"""The routes and their pages. Errors are JSON as well."""

import socket
import time
from collections.abc import Iterable
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from kohort.broker.http.connections import Connections
from kohort.broker.http.groups import describe_group, list_groups
from kohort.broker.http.guard import KNOWN, AllowedHosts, Guard, error_response
from kohort.broker.http.keeping import KeptPages
from kohort.broker.http.metrics import MetricsPage
from kohort.broker.http.named_route import NamedRoute
from kohort.broker.http.readiness import not_ready
from kohort.broker.http.view import View

if TYPE_CHECKING:
    from kohort.broker.http.security import HttpSecurity
    from kohort.broker.http.workers import Others

GROUPS_MAX = 1_000
"""A list of more groups is kept for a second, and not made for each request."""
PATHS = {
    "/": "in a browser, the live page",
    "/metrics": "metrics for Prometheus",
    "/health/live": "200 while the broker's loop runs",
    "/health/ready": "200 while the broker serves all requests, else 503 with the reasons",
    "/api/v1/groups": "every group in short",
    "/api/v1/groups/GROUP": "one group: members, offsets, lag, rebalances",
    "/api/v1/share-groups/GROUP": "one share group: who holds which records here, what came back and why",
}
"""What the index shows: each path, and what it answers."""


async def serve(
    view: View,
    sock: socket.socket,
    hosts: Iterable[str] = (),
    security: "HttpSecurity | None" = None,
    others: "tuple[int, Others] | None" = None,
) -> None:
    """Serve the pages on a listening socket until cancelled; the socket stays the caller's."""
    own = application(view)
    app: ASGIApp = own
    brokers = view.others()
    if brokers is not None:
        from kohort.broker.http.cluster_pages import ClusterPages  # noqa: PLC0415  # Most brokers are alone.

        app = ClusterPages(own, brokers, view)
    if others is not None:
        from kohort.broker.http.workers import AllWorkers  # noqa: PLC0415  # Most brokers are one process.

        app = AllWorkers(own, *others, cluster=app)
    if view.answers_agents():
        from kohort.broker.http.agents import Agents  # noqa: PLC0415  # Most brokers are asked by none.

        app = Agents(app)
    allowed = AllowedHosts(hosts)
    if security is None:
        guard = Guard(app, allowed)
    else:
        guard = Guard(
            app,
            allowed,
            security.knows,
            lock_out_max_ms=security.lock_out_max_ms,
            name_of=security.name_of,
        )
    async with trio.open_nursery() as nursery:
        if security is not None:
            nursery.start_soon(security.reload_regularly)
        await Connections(guard, security).serve(sock.dup())


def application(view: View) -> Starlette:
    """Return the application that shows `view`."""
    pages = Pages(view)
    return Starlette(
        routes=[
            Route("/", pages.index, methods=["GET"]),
            Route("/page/{rest:path}", pages.live_page),
            Route("/api/v1/live/{rest:path}", pages.live_page),
            Route("/metrics", pages.metrics, methods=["GET"]),
            Route("/health/live", pages.live, methods=["GET"]),
            Route("/health/ready", pages.ready, methods=["GET"]),
            Route("/api/v1/groups", pages.groups, methods=["GET"]),
            NamedRoute("/api/v1/groups/{group_id:path}", pages.group),
            NamedRoute("/api/v1/share-groups/{group_id:path}", pages.share_group),
        ],
        exception_handlers={HTTPException: http_error, Exception: server_error},
    )


class LivePage:
    """The live page, imported at the first request for it."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._router: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        live = await self._loaded()
        self._router = self._router or Router(live.routes(self._view))
        await self._router(scope, receive, send)

    async def index(self) -> Response:
        """Return the page itself."""
        page: Response = (await self._loaded()).index()
        return page

    async def _loaded(self) -> Any:
        return await trio.to_thread.run_sync(_load_live)


def _load_live() -> Any:
    """Return the package of the live page, imported with all that it needs."""
    from kohort.broker.http import live  # noqa: PLC0415  # Most brokers show it to nobody.

    return live


class Pages:
    """One method a route."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._metrics = MetricsPage(view)
        self._kept = KeptPages()
        self.live_page = LivePage(view)

    async def index(self, request: Request) -> Response:
        """Return the live page to a browser, and to anybody else where everything else is."""
        if "text/html" in request.headers.get("accept", ""):
            return await self.live_page.index()
        return json_response({"kohort": version("kohort"), "paths": PATHS})

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
        told = {"reasons": reasons} if request.scope.get(KNOWN, True) else {}
        return json_response({"status": status, **told}, 503 if reasons else 200)

    async def groups(self, request: Request) -> Response:
        """Return all groups in short; where there are many, as of a second ago at most."""
        if next(islice(self._view.groups(), GROUPS_MAX, None), None) is None:
            return await large_json_response(await list_groups(self._view))
        page = await self._kept.made("groups", lambda: list_groups(self._view))
        return Response(page, media_type="application/json")

    async def group(self, request: Request) -> Response:
        """Return one group with its members, offsets and rebalances."""
        group_id = request.path_params["group_id"]
        group = self._view.group(group_id)
        if group is None:
            return error_response(*missing_group(self._view, group_id))
        described = await describe_group(self._view, group, time.time_ns() // 1_000_000)
        return await large_json_response(described)

    async def share_group(self, request: Request) -> Response:
        """Return what this broker knows of a share group that it coordinates, or leads partitions of."""
        group_id = request.path_params["group_id"]
        explained = self._view.share_group(group_id)
        if explained is None:
            return error_response(404, f"nothing is known here of a share group {group_id}")
        return await large_json_response(explained)


def missing_group(view: View, group_id: str) -> tuple[int, str]:
    """Return the status, and why a group cannot be shown: nobody knows it, or nobody knows yet."""
    if view.is_loading(group_id):
        return 503, f"the groups that {group_id} is among are being loaded: try again"
    return 404, f"there is no group {group_id}"


def json_response(content: object, status: int = 200) -> Response:
    """Return `content` as JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def large_json_response(content: object) -> Response:
    """Return `content`, plain values alone, as JSON that another thread writes: it may be long."""
    page = await trio.to_thread.run_sync(msgspec.json.encode, content)
    return Response(page, media_type="application/json")


async def http_error(request: Request, error: Exception) -> Response:
    """Return an error of the client, such as 404 or 405."""
    assert isinstance(error, HTTPException)
    response = error_response(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def server_error(request: Request, error: Exception) -> Response:
    """Return an error of ours; starlette raises it again, and so it is logged."""
    return error_response(500, "internal error")
