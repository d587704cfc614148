"""Connections of HTTP/1.1: what follows what, over a real socket and an application of a few lines."""

import socket
from collections.abc import AsyncIterator

import pytest
import trio
from starlette.types import Receive, Scope, Send

from kohort.broker.http.connections import Connections

PATIENCE_SECONDS = 10
CLOSE = "Connection: close\r\n"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path, the query and the body; `/ignore` leaves the body where it is."""
    body = b""
    while scope["path"] != "/ignore" and (message := await receive())["more_body"]:
        body += message["body"]
    said = b"%b %b %b" % (scope["path"].encode(), scope["query_string"], body)
    headers = [] if scope["path"] == "/chunks" else [(b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said[:3], "more_body": True})
    if scope["path"] == "/failure":
        raise ValueError("the page is broken")
    await send({"type": "http.response.body", "body": said[3:]})


@pytest.fixture
async def port(nursery: trio.Nursery) -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        nursery.start_soon(Connections(echo).serve, sock.dup())
        yield sock.getsockname()[1]


async def answers(port: int, *requests: str) -> list[tuple[str, bytes]]:
    """Return status line and body of each answer, when the server has closed."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    said = b""
    async with stream:
        await stream.send_all("".join(requests).encode("latin-1"))
        with trio.fail_after(PATIENCE_SECONDS):
            while data := await stream.receive_some():
                said += data
    found = []
    for part in said.split(b"HTTP/1.1 ")[1:]:
        head, _, body = part.partition(b"\r\n\r\n")
        found.append((head.split(b"\r\n")[0].decode(), body))
    return found


def asked(path: str, more: str = "", body: str = "", method: str = "GET", version: str = "1.1") -> str:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/{version}\r\nHost: localhost\r\n{length}{more}\r\n{body}"


async def test_one_connection_has_many_requests_also_at_once(port: int) -> None:
    found = await answers(port, asked("/one"), asked("/two?a=b%20c"), asked("/t%68ree", CLOSE))
    assert found == [("200 ", b"/one  "), ("200 ", b"/two a=b%20c "), ("200 ", b"/three  ")]


async def test_a_head_has_no_body(port: int) -> None:
    found = await answers(port, asked("/one", method="HEAD"), asked("/two", CLOSE))
    assert found == [("200 ", b""), ("200 ", b"/two  ")]


async def test_a_body_is_read_and_one_that_nobody_reads_is_skipped(port: int) -> None:
    requests = (asked("/a", body="given"), asked("/ignore", body="given"), asked("/b", CLOSE))
    assert [body for _, body in await answers(port, *requests)] == [b"/a  given", b"/ignore  ", b"/b  "]


async def test_who_waits_for_a_word_before_the_body_hears_it(port: int) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        expecting = "Expect: 100-continue\r\nContent-Length: 5\r\n"
        await stream.send_all(asked("/a", CLOSE + expecting).encode())
        with trio.fail_after(PATIENCE_SECONDS):
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 100 ")
            await stream.send_all(b"given")
            said = b""
            while data := await stream.receive_some():
                said += data
    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.endswith(b"/a  given")


async def test_what_has_no_length_is_chunked(port: int) -> None:
    assert await answers(port, asked("/chunks", CLOSE)) == [
        ("200 ", b"3\r\n/ch\r\n6\r\nunks  \r\n0\r\n\r\n"),
    ]


@pytest.mark.parametrize(
    "request_, status",
    [
        ("nonsense\r\n\r\n", "400 "),
        ("GET / HTTP/1.1\r\n\r\n", "400 "),
        (asked("/", "X: " + "x" * 60_000 + "\r\n"), "431 "),
        (asked("/", version="2.0"), "505 "),
    ],
)
async def test_what_is_no_request_is_told_so_and_ended(port: int, request_: str, status: str) -> None:
    assert [each for each, _ in await answers(port, request_)] == [status]


async def test_an_answer_that_breaks_off_ends_its_connection_alone(port: int) -> None:
    assert await answers(port, asked("/failure")) == [("200 ", b"/fa")]
    assert await answers(port, asked("/a", CLOSE)) == [("200 ", b"/a  ")]
