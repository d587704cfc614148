"""HTTP of the workers of queues, destinations and regions: a page for people, JSON, probes and metrics.

Each answer is made within the worker's event loop, so that nothing changes meanwhile; where the loop does not
get to it in time, the worker is not live.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from kohort.broker.http.page_files import ASSETS
from kohort.broker.http.questions import Question
from kohort.cli.status_server import NOT_FOUND, Page, StatusServer, file_page
from kohort.client.any_thread import from_any_thread

logger = logging.getLogger(__name__)

ANSWER_SECONDS_MAX = 5.0
"""A loop that does not answer for so long stands still."""
JSON = "application/json"
STANDS_STILL = Page(503, JSON, b'{"error":"the event loop of this process does not answer"}')
FAILED = Page(500, JSON, b'{"error":"this page could not be made: see the log"}')
OWN = Path(__file__).parent / "worker_page"
FILES: Mapping[str, Path] = {
    "worker.js": OWN,
    **dict.fromkeys(("dom.js", "trend.js", "style.css", "icon.svg"), ASSETS),
}
"""The folder of each file that the page loads; some are the live page's."""


class Worker(Protocol):
    """What is served: all of it is asked in the worker's event loop."""

    kind: str
    """`queue`, `forward` or `region`: its JSON is at `/api/v1/KIND`."""

    @property
    def is_ready(self) -> bool:
        """Whether it has joined its group, and does not stop."""
        ...

    def status(self) -> Mapping[str, object]:
        """Return how it stands, for its JSON and its page."""
        ...

    def metrics(self) -> Iterable[Metric]:
        """Return its metrics."""
        ...


@asynccontextmanager
async def served(http: str, worker: Worker) -> AsyncIterator[None]:
    """Answer at that address while the block runs.

    Raises: click.UsageError for no address, OSError where it is taken.
    """
    server = StatusServer(http, _Pages(worker, from_any_thread()).page)
    try:
        yield
    finally:
        server.close()


class _Pages:
    """What each path answers; in threads of the server."""

    def __init__(self, worker: Worker, soon: Callable[[Callable[[], None]], None]) -> None:
        self._worker = worker
        self._soon = soon
        self._registry = CollectorRegistry()
        self._registry.register(_Collected(worker))

    def page(self, question: Question) -> Page:
        """Return the answer to a question."""
        path = question.path
        if path == "/":
            return file_page("index.html", OWN)
        if path.startswith("/page/"):
            name = path.removeprefix("/page/")
            return file_page(name, FILES[name]) if name in FILES else NOT_FOUND
        answers: Mapping[str, Callable[[], Page]] = {
            "/metrics": lambda: Page(200, CONTENT_TYPE_LATEST, generate_latest(self._registry)),
            "/health/live": lambda: Page(200, JSON, b'{"status":"live"}'),
            "/health/ready": self._ready,
            "/api/v1/worker": self._status,
            f"/api/v1/{self._worker.kind}": self._status,
        }
        answer = answers.get(path)
        if answer is None:
            return NOT_FOUND
        return self._in_loop(answer)

    def _ready(self) -> Page:
        is_ready = self._worker.is_ready
        return Page(200 if is_ready else 503, JSON, msgspec.json.encode({"ready": is_ready}))

    def _status(self) -> Page:
        worker = self._worker
        told = {"kind": worker.kind, "ready": worker.is_ready, **worker.status()}
        return Page(200, JSON, msgspec.json.encode(told))

    def _in_loop(self, function: Callable[[], Page]) -> Page:
        """Return what a function answers in the worker's loop."""
        answer: Future[Page] = Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(function())
                except Exception:
                    logger.warning("a page could not be made", exc_info=True)
                    answer.set_result(FAILED)

        try:
            self._soon(run)
            return answer.result(ANSWER_SECONDS_MAX)
        except TimeoutError:
            answer.cancel()
            return STANDS_STILL
        except RuntimeError:  # The loop has ended.
            return STANDS_STILL


class _Collected(Collector):
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterable[Metric]:
        """Return the worker's metrics."""
        return self._worker.metrics()
