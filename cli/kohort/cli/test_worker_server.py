"""The HTTP of workers: whose loop answers, stands still, fails, or has ended."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.to_thread
import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from kohort.cli import worker_server
from kohort.cli.queue_options import serving
from kohort.cli.status_server import StatusServer
from kohort.cli.worker_server import served


class Worker:
    kind = "queue"
    is_ready = False
    is_broken = False

    def status(self) -> Mapping[str, object]:
        if self.is_broken:
            raise ValueError("a bug")
        return {"role": "tracker", "topic": "orders"}

    def metrics(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("kohort_something", "Of a test.", 7)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where the server listens, once it does."""
    found: list[str] = []

    class Noted(StatusServer):
        def server_activate(self) -> None:
            super().server_activate()
            host, port = self.server_address[:2]
            found.append(f"http://{host!s}:{port}")

    monkeypatch.setattr(worker_server, "StatusServer", Noted)
    return found


def get(url: str) -> tuple[int, str, Mapping[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_probes_json_metrics_and_the_page(address: list[str], backend: str) -> None:
    worker = Worker()

    async def main() -> None:
        async with served("127.0.0.1:0", worker):
            await anyio.to_thread.run_sync(ask)
            worker.is_ready = True
            answer = await anyio.to_thread.run_sync(get, f"{address[0]}/health/ready")
            assert answer[:2] == (200, '{"ready":true}')

    def ask() -> None:
        assert get(f"{address[0]}/health/live")[0] == 200
        assert get(f"{address[0]}/health/ready")[:2] == (503, '{"ready":false}')
        for path in ("/api/v1/worker", "/api/v1/queue?a=b"):
            status, body, headers = get(address[0] + path)
            assert status == 200
            assert json.loads(body) == {
                "kind": "queue",
                "ready": False,
                "role": "tracker",
                "topic": "orders",
            }
            assert headers["content-security-policy"].startswith("default-src 'none'; base-uri")
        assert "kohort_something 7.0" in get(f"{address[0]}/metrics")[1]
        status, body, headers = get(f"{address[0]}/")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "worker.js" in body
        for name in worker_server.FILES:
            assert get(f"{address[0]}/page/{name}")[0] == 200
        for path in ("/api/v1/region", "/page/index.html", "/page/../worker_server.py", "/page/", "/nothing"):
            assert get(address[0] + path)[0] == 404

    anyio.run(main, backend=backend)
    with pytest.raises(OSError, match="refused"):
        get(f"{address[0]}/health/live")


def test_a_loop_that_stands_still_is_not_live(address: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_server, "ANSWER_SECONDS_MAX", 0.2)

    async def main() -> None:
        async with served("127.0.0.1:0", Worker()):
            with ThreadPoolExecutor() as pool:  # The loop stands still until the answer is there.
                status, body, _ = pool.submit(get, f"{address[0]}/health/live").result(30)
            assert status == 503
            assert "does not answer" in body
            answer = await anyio.to_thread.run_sync(get, f"{address[0]}/health/live")
            assert answer[0] == 200

    anyio.run(main, backend="trio")


def test_a_page_that_fails_costs_the_worker_nothing(
    address: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()
    worker.is_broken = True

    async def main() -> None:
        async with served("127.0.0.1:0", worker):
            assert (await anyio.to_thread.run_sync(get, f"{address[0]}/api/v1/queue"))[0] == 500
            worker.is_broken = False
            assert (await anyio.to_thread.run_sync(get, f"{address[0]}/api/v1/queue"))[0] == 200

    anyio.run(main, backend="trio")
    assert "ValueError: a bug" in caplog.text


def test_a_worker_without_an_address_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_server, "StatusServer", None)

    async def main() -> bool:
        async with serving(None, Worker()):
            return True

    assert anyio.run(main, backend="trio")
