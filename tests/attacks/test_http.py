"""The pages: connections that say nothing, names that are not ours, browsers that guess."""

from __future__ import annotations

import os
import socket
import time

import pytest

from tests.attacks.pages import bare, page
from tests.attacks.trial import StartTrial

NIGHTLY = "KOHORT_TEST_NIGHTLY"
PATHS = ("/metrics", "/health/live", "/health/ready", "/api/v1/groups", "/api/v1/groups/nobody", "/nowhere")
HEADER_WITHIN_S = 60.0
CONNECTIONS = 1_500


def test_pages_have_a_nosniff_header(trial: StartTrial) -> None:
    with trial() as attacked:
        for path in PATHS:
            found = page(attacked.broker.http, path)
            assert found.headers.get("x-content-type-options") == "nosniff", path


def test_a_foreign_host_header_is_refused(trial: StartTrial) -> None:
    """A page of somebody else's, in a browser on this machine, gets here by a name of its own."""
    with trial() as attacked:
        for host in ("evil.example", "evil.example:9644", "127.0.0.1.evil.example"):
            found = page(attacked.broker.http, "/api/v1/groups", host)
            assert found.status in {400, 403, 421}, host
            assert "innocent" not in found.text
        port = attacked.broker.http.rsplit(":", 1)[1]
        for ours in (attacked.broker.http, f"localhost:{port}"):
            assert page(attacked.broker.http, "/api/v1/groups", ours).status == 200


def test_silent_http_connections_do_not_shut_others_out(trial: StartTrial) -> None:
    """Neither Kafka clients nor a monitor are shut out by who holds pages' connections open."""
    with trial() as attacked:
        held: list[socket.socket] = []
        for number in range(CONNECTIONS):
            try:
                held.append(bare(attacked.broker.http))
                held[-1].sendall((b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: ")[number % 3])
            except OSError:
                continue
        opened = attacked.broker.open_files()
        for each in held:
            each.close()
        assert opened < CONNECTIONS // 2, f"{opened} descriptors are taken"


@pytest.mark.skipif(NIGHTLY not in os.environ, reason=f"{NIGHTLY}=1 runs it")
@pytest.mark.parametrize("piece", [b"", b"X-Slow: 1\r\n"])
def test_a_connection_with_an_endless_header_is_closed(trial: StartTrial, piece: bytes) -> None:
    with trial() as attacked:
        slow = bare(attacked.broker.http)
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        slow.settimeout(1.0)
        ends_s = time.monotonic() + HEADER_WITHIN_S
        closed = False
        while time.monotonic() < ends_s and not closed:
            try:
                slow.sendall(piece)
                closed = slow.recv(1_000) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
        assert closed


def test_many_connections_request_pages_at_once(trial: StartTrial) -> None:
    """Metrics, pipelined and never read."""
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with trial() as attacked:
        held = [bare(attacked.broker.http) for _ in range(20)]
        for each in held:
            each.sendall(request * 50)
        time.sleep(2.0)
        for each in held:
            each.close()
