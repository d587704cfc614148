"""Clients over HTTP that mean harm or stand still: what they cost, and that others are served meanwhile."""

import os
import socket
from collections.abc import AsyncIterator

import pytest
import trio

from kohort.broker.http import connections, conversation, guard, pages
from kohort.broker.http.guard import AllowedHosts
from kohort.broker.http.test_http import FakeView, Site

PATIENCE_SECONDS = 30


@pytest.fixture
async def site(nursery: trio.Nursery) -> AsyncIterator[Site]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        view = FakeView()
        nursery.start_soon(pages.serve, view, sock, ("broker",))
        yield Site(view, sock.getsockname()[1])


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the deadline of headers be short, where it is what a test is about: others may be slow to ask."""
    monkeypatch.setattr(conversation, "HEADER_SECONDS", 0.3)


@pytest.fixture
def without_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody be closed for asking nothing: where somebody is, it makes way."""
    monkeypatch.setattr(conversation, "HEADER_SECONDS", 3_600.0)


async def said(site: Site, request: bytes) -> bytes:
    """Send these bytes and return all that comes until the server closes."""
    stream = await trio.open_tcp_stream("127.0.0.1", site.port)
    async with stream:
        await stream.send_all(request)
        return await until_closed(stream)


async def until_closed(stream: trio.SocketStream) -> bytes:
    answer = b""
    with trio.fail_after(PATIENCE_SECONDS):
        try:
            while data := await stream.receive_some():
                answer += data
        except trio.BrokenResourceError:
            return answer
    return answer


def asked(host: str, path: str = "/health/live", more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n".encode()


@pytest.mark.usefixtures("in_a_hurry")
@pytest.mark.parametrize("begun", [b"", b"GET /metr", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
async def test_who_sends_nothing_or_half_a_header_is_closed(site: Site, begun: bytes) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", site.port)
    async with stream:
        await stream.send_all(begun)
        await until_closed(stream)


@pytest.mark.usefixtures("in_a_hurry")
async def test_a_header_that_comes_byte_by_byte_has_the_same_deadline(site: Site) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", site.port)
    async with stream:
        with pytest.raises(trio.BrokenResourceError):
            await drip(stream)


async def drip(stream: trio.SocketStream) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            await stream.send_all(b"G")
            await trio.sleep(0.05)


@pytest.mark.usefixtures("without_haste")
async def test_beyond_the_cap_who_has_asked_nothing_for_longest_makes_way(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    before = descriptors()
    idle = [await trio.open_tcp_stream("127.0.0.1", site.port) for _ in range(40)]
    for stream in idle[:36]:
        assert await until_closed(stream) == b""
    for stream in idle[36:]:
        with trio.move_on_after(0.02) as wait:
            await stream.receive_some()
        assert wait.cancelled_caught, "the newest are still there"
    assert descriptors() - before <= len(idle) + 4 + 2  # The clients' ends are ours as well.
    assert (await site.get("/health/live")).status == 200
    for stream in idle:
        await stream.aclose()


@pytest.mark.usefixtures("without_haste")
async def test_beyond_the_cap_connections_are_refused_at_once_while_all_others_are_answered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(connections, "HEALTH_MAX", 0)
    site.view.cluster_id = "x" * 16_000_000
    busy = [await trio.open_tcp_stream("127.0.0.1", site.port) for _ in range(4)]
    for stream in busy:
        await stream.send_all(asked("localhost", "/metrics"))
        await stream.receive_some(1)
    late = await trio.open_tcp_stream("127.0.0.1", site.port)
    answer = await until_closed(late)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert answer.endswith(b'{"error":"too many connections"}')
    for stream in busy:
        await stream.aclose()
    with trio.fail_after(PATIENCE_SECONDS):
        while (await site.get("/health/live")).status != 200:
            await trio.sleep(0.05)


@pytest.mark.usefixtures("without_haste")
async def test_beyond_the_cap_whoever_looks_whether_the_broker_lives_is_answered(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    site.view.cluster_id = "x" * 16_000_000
    busy = [await trio.open_tcp_stream("127.0.0.1", site.port) for _ in range(4)]
    for stream in busy:
        await stream.send_all(asked("localhost", "/metrics"))
        await stream.receive_some(1)
    silent = [await trio.open_tcp_stream("127.0.0.1", site.port) for _ in range(20)]
    assert (await said(site, asked("localhost", "/health/live"))).startswith(b"HTTP/1.1 200 ")
    assert (await said(site, asked("localhost", "/metrics"))).startswith(b"HTTP/1.1 503 ")
    for stream in (*busy, *silent):
        await stream.aclose()


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="elsewhere 127.0.0.2 is not this machine's")
@pytest.mark.usefixtures("without_haste")
async def test_beyond_the_cap_who_takes_all_places_makes_way_for_another_network(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    site.view.cluster_id = "x" * 16_000_000
    busy = [await trio.open_tcp_stream("127.0.0.1", site.port) for _ in range(4)]
    for stream in busy:
        await stream.send_all(asked("localhost", "/metrics"))
        await stream.receive_some(1)
    other = await trio.open_tcp_stream("127.0.0.1", site.port, local_address="127.0.0.2")
    await other.send_all(asked("localhost", "/api/v1/groups"))
    assert (await until_closed(other)).startswith(b"HTTP/1.1 200 ")
    for stream in busy:
        await stream.aclose()


async def test_who_reads_nothing_cannot_hold_up_the_end() -> None:
    view = FakeView(cluster_id="x" * 16_000_000)
    with trio.fail_after(PATIENCE_SECONDS), socket.create_server(("127.0.0.1", 0)) as sock:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pages.serve, view, sock)
            stream = await trio.open_tcp_stream("127.0.0.1", sock.getsockname()[1])
            await stream.send_all(asked("localhost", "/metrics"))
            await stream.receive_some()
            nursery.cancel_scope.cancel()
        await stream.aclose()


async def test_who_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    assert (await site.get("/health/live")).status == 200
    monkeypatch.setattr(conversation, "REQUEST_SECONDS", 0.2)
    ended, run = trio.Event(), conversation.Conversation.run

    async def run_to_its_end(self: conversation.Conversation) -> None:
        await run(self)
        ended.set()

    monkeypatch.setattr(conversation.Conversation, "run", run_to_its_end)
    site.view.cluster_id = "x" * 16_000_000
    async with await trio.open_tcp_stream("127.0.0.1", site.port) as stream:
        await stream.send_all(asked("localhost", "/metrics"))
        with trio.fail_after(PATIENCE_SECONDS):
            await ended.wait()
        assert len(await until_closed(stream)) < 16_000_000


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9644", "localhost.evil.example", ""])
async def test_a_name_that_is_none_of_ours_is_misdirected(site: Site, host: str) -> None:
    answer = await said(site, asked(host, "/metrics"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 421 ", b"HTTP/1.1 400 "))
    assert b"kohort_info" not in body
    if host.startswith("evil"):
        assert b"application/json" in head
        assert b"kohort.http.allowed.hosts" in body


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.:9644", "127.0.0.1:1", "[::1]:9644", "192.168.1.5", "broker:9644"]
)
async def test_our_own_names_and_addresses_are_answered(site: Site, host: str) -> None:
    assert (await said(site, asked(host))).startswith(b"HTTP/1.1 200 ")


async def test_a_request_of_old_without_a_host_is_answered(site: Site) -> None:
    assert (await said(site, b"GET /health/live HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


def test_a_star_allows_every_name() -> None:
    assert AllowedHosts(("*",)).allows("evil.example")
    assert not AllowedHosts(("",)).allows("")


@pytest.mark.parametrize(
    "more", ["Content-Length: 999999999\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 5000\r\n"]
)
async def test_a_body_is_refused_before_it_comes(site: Site, more: str) -> None:
    answer = await said(site, asked("localhost", more=more))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b"}")


async def test_requests_in_flight_have_a_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUESTS_MAX", 0)
    assert (await site.get("/health/live")).status == 200, "whoever else asks"
    answer = await site.get("/metrics")
    assert (answer.status, answer.json) == (503, {"error": "too many requests are in flight"})


@pytest.mark.parametrize("path", ["/", "/metrics", "/health/ready", "/api/v1/groups", "/nowhere"])
async def test_browsers_are_told_to_keep_and_run_nothing(site: Site, path: str) -> None:
    headers = (await site.get(path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_websocket_is_refused(site: Site) -> None:
    upgrade = (
        "Upgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    )
    request = f"GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n".encode()
    assert (await said(site, request)).startswith(b"HTTP/1.1 403 ")


async def test_an_upgrade_to_http_2_is_not_taken(site: Site) -> None:
    upgrade = "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
    answer = await said(site, asked("localhost", more=upgrade))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b'{"status":"live"}')


async def test_garbage_costs_its_own_connection(site: Site) -> None:
    for garbage in (
        b"\0" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense",
        b"GET / HTTP/1.1\r\n" + b"x" * 99_999,
    ):
        await said(site, garbage)
    assert (await site.get("/health/live")).status == 200


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))
