"""One HTTP address for several workers of one host: what all say is put together, the rest is passed on.

The first worker serves it. `/metrics` and `/health/ready` are those of all, `/workers/N/...` is what worker N
alone answers at that path, and the rest is what a broker answers for its cluster.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kohort.broker.http.guard import KNOWN, error_response
from kohort.broker.http.named_route import NamedRoute
from kohort.broker.http.questions import Answer, Question, answered, passed_on, question_from

WORKER = "worker"
"""The label by which metrics tell workers apart."""
OPENMETRICS_END = b"# EOF"


class Others(Protocol):
    """The other workers of the host."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Who they are, whether they run or not."""
        ...

    async def ask(self, worker: int, question: Question) -> Answer | None:
        """Return what a worker answers, None where it does not run."""
        ...


class AllWorkers:
    """An ASGI application: the pages of the worker that serves, with what the others have."""

    def __init__(self, own: ASGIApp, number: int, others: Others, *, cluster: ASGIApp) -> None:
        """`own` is what this worker alone answers, `cluster` what it does for all."""
        self._own = own
        self._cluster = cluster
        self._number = number
        self._others = others
        self._routes = Starlette(
            routes=[
                Route("/", self.index, methods=["GET"]),
                Route("/metrics", self.metrics, methods=["GET"]),
                Route("/health/ready", self.ready, methods=["GET"]),
                Route("/workers", self.workers, methods=["GET"]),
                NamedRoute("/workers/{worker:int}/{path:path}", self.one, methods=["GET", "POST"]),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_ours = scope["path"] in MERGED or scope["path"].startswith("/workers")
        await (self._routes if is_ours else self._cluster)(scope, receive, send)

    async def index(self, request: Request) -> Response:
        """Return what the worker that serves has there; its page gets to know which workers there are."""
        return self._with_workers(await answered(self._own, await question_from(request)))

    def _with_workers(self, told: Answer) -> Response:
        numbers = " ".join(map(str, self._numbers()))
        mark = b'<head>\n<meta name="workers" content="%b">' % numbers.encode()
        return passed_on(msgspec.structs.replace(told, body=told.body.replace(b"<head>", mark, 1)))

    async def metrics(self, request: Request) -> Response:
        """Return the metrics of all, each with the number of its worker; one that is away has none."""
        found = {each: told for each, told in (await self._ask_all(request)).items() if told is not None}
        page = await trio.to_thread.run_sync(merged, {each: told.body for each, told in found.items()})
        return Response(page, headers=_content_type(found[self._number]))

    async def ready(self, request: Request) -> Response:
        """Return whether all workers can be asked everything, and if not, why."""
        reasons: list[str] = []
        for number, told in (await self._ask_all(request)).items():
            if told is None:
                reasons.append(f"worker {number}: it does not answer")
            elif told.status != 200:
                reasons += [
                    f"worker {number}: {each}" for each in told.json().get("reasons", ["it is not ready"])
                ]
        status = "not ready" if reasons else "ready"
        told_reasons = {"reasons": reasons} if request.scope.get(KNOWN, True) else {}
        return _json({"status": status, **told_reasons}, 503 if reasons else 200)

    async def workers(self, request: Request) -> Response:
        """Return where the pages of each worker are."""
        return _json({"workers": [{"number": each, "path": f"/workers/{each}/"} for each in self._numbers()]})

    async def one(self, request: Request) -> Response:
        """Return what one worker answers."""
        number = request.path_params["worker"]
        if number not in self._numbers():
            return error_response(404, f"there is no worker {number}")
        path = f"/{request.path_params['path']}"
        if path.endswith("/events"):
            return error_response(404, "a worker's events are not passed on: ask again and again")
        told = await self._ask(number, msgspec.structs.replace(await question_from(request), path=path))
        if told is None:
            return error_response(503, f"worker {number} does not answer")
        return self._with_workers(told) if path == "/" else passed_on(told)

    def _numbers(self) -> tuple[int, ...]:
        return tuple(sorted((self._number, *self._others.numbers)))

    async def _ask(self, number: int, question: Question) -> Answer | None:
        if number == self._number:
            return await answered(self._own, question)
        return await self._others.ask(number, question)

    async def _ask_all(self, request: Request) -> Mapping[int, Answer | None]:
        """Return what each answers to a request, by number."""
        question = await question_from(request)
        found: dict[int, Answer | None] = dict.fromkeys(self._numbers())

        async def ask(number: int) -> None:
            found[number] = await self._ask(number, question)

        async with trio.open_nursery() as nursery:
            for number in found:
                nursery.start_soon(ask, number)
        return found


MERGED = frozenset(("/", "/metrics", "/health/ready"))


def _content_type(told: Answer) -> dict[str, str]:
    found = dict(told.headers)
    return {"content-type": found[b"content-type"].decode()}


def _json(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


def merged(pages: Mapping[int, bytes]) -> bytes:
    """Return one page of metrics with the samples of all, each under one more label: its worker.

    What is told of a metric stands once, and all of its samples together, as the format asks. For a thread.
    """
    heads: dict[bytes, list[bytes]] = {}
    samples: dict[bytes, list[bytes]] = {}
    ends_with_a_word = False
    for worker, page in pages.items():
        label = b'%s="%d"' % (WORKER.encode(), worker)
        name = b""
        for line in page.split(b"\n"):
            if line.startswith((b"# HELP ", b"# TYPE ", b"# UNIT ")):
                name = line.split(b" ", 3)[2]
                head = heads.setdefault(name, [])
                if line not in head:
                    head.append(line)
            elif line == OPENMETRICS_END:
                ends_with_a_word = True
            elif line:
                samples.setdefault(name, []).append(_labelled(line, label))
    lines: Iterable[bytes] = (
        line for name, head in heads.items() for line in (*head, *samples.get(name, ()))
    )
    end = OPENMETRICS_END + b"\n" if ends_with_a_word else b""
    return b"".join(line + b"\n" for line in lines) + end


def _labelled(line: bytes, label: bytes) -> bytes:
    """Return a sample with one more label, in front of those that it has."""
    name, brace, rest = line.partition(b"{")
    if not brace or b" " in name:  # The brace is that of an exemplar.
        name, _, value = line.partition(b" ")
        return b"%b{%b} %b" % (name, label, value)
    return b"%b{%b%b%b" % (name, label, b"" if rest.startswith(b"}") else b",", rest)
