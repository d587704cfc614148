"""A request and its answer as plain values: what one broker's or worker's pages ask another's."""

from collections.abc import Mapping
from typing import Any

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from kohort.broker.http.guard import BODY_BYTES_MAX


class Question(msgspec.Struct, frozen=True):
    """A request, passed on: what an application has to know of it."""

    method: str
    path: str
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


class Answer(msgspec.Struct, frozen=True):
    """A whole answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return what it holds."""
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


def question_of(form: Mapping[str, object]) -> Question:
    """Return the question that this is the JSON of."""
    return msgspec.convert(form, Question)


def answer_of(form: Mapping[str, object]) -> Answer:
    """Return the answer that this is the JSON of."""
    return msgspec.convert(form, Answer)


async def answered(app: ASGIApp, question: Question, who: Mapping[str, object] | None = None) -> Answer:
    """Return the whole answer of an application to a question; a stream that does not end has none.

    `who` is what the scope of the client's own request says of the client.
    """
    parts: list[bytes] = []
    begun: list[Message] = []
    asked = [{"type": "http.request", "body": question.body, "more_body": False}]

    async def receive() -> Message:
        if not asked:
            await trio.sleep_forever()  # There is nothing behind the body.
        return asked.pop()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            begun.append(message)
        else:
            parts.append(message.get("body", b""))

    await app({**_scope(question), **(who or {})}, receive, send)
    headers = tuple((bytes(name), bytes(value)) for name, value in begun[0].get("headers", ()))
    return Answer(begun[0]["status"], headers, b"".join(parts))


def _scope(question: Question) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": question.method,
        "scheme": "http",
        "path": question.path,
        "raw_path": question.path.encode(),
        "query_string": question.query,
        "root_path": "",
        "headers": list(question.headers),
        "client": None,
        "server": None,
    }


async def question_from(request: Request) -> Question:
    """Return what a client asks."""
    headers = tuple((bytes(name), bytes(value)) for name, value in request.scope["headers"])
    assert int(request.headers.get("content-length", "0")) <= BODY_BYTES_MAX, "the guard has looked"
    return Question(
        request.method, request.scope["path"], request.scope["query_string"], headers, await request.body()
    )


def passed_on(told: Answer) -> Response:
    """Return an answer of another application as ours."""
    response = Response(told.body, told.status)
    own = [each for each in response.raw_headers if each[0] == b"content-length"]
    response.raw_headers = [*(each for each in told.headers if each[0] != b"content-length"), *own]
    return response
