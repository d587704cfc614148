"""Lets agents ask a broker at `/mcp`, where the broker's owner wants it.

The SDK is imported at the first request.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import trio
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from kohort.broker.http.conversation import CONVERSATION
from kohort.broker.http.guard import KNOWN, USER, error_response
from kohort.broker.http.questions import Question, answered, passed_on, question_from

PATH = "/mcp"


def refusal(method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Return status and reason if a page of another site asks, or the method is not POST; else None."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host", ""):
        return 403, f"this comes from a page of {origin}"
    if method != "POST":
        return 405, "agents ask by POST: there is no stream to listen to"
    return None


class Agents:
    """An ASGI application: `/mcp`, and what another application answers to everything else."""

    def __init__(self, app: ASGIApp) -> None:
        """`app` answers the questions of tools, on behalf of the agent's user: it decides what is shown."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        refused = refusal(request.method, request.headers)
        if refused is not None:
            await error_response(*refused, {"allow": "POST"})(scope, receive, send)
            return
        who = {name: scope[name] for name in (CONVERSATION, KNOWN, USER) if name in scope}

        async def ask(target: str) -> tuple[int, bytes]:
            path, _, query = target.partition("?")
            told = await answered(self._app, Question("GET", path, query.encode()), who)
            return told.status, told.body

        endpoint = await trio.to_thread.run_sync(_load_endpoint)
        told = await endpoint.agent_answer(await question_from(request), ask)
        await passed_on(told)(scope, receive, send)


def _load_endpoint() -> Any:
    from kohort.broker.http import mcp_endpoint  # noqa: PLC0415  # Most brokers are asked by no agent.

    return mcp_endpoint
