"""HTTP to services that are quick, slow, rude and gone: what comes of a push, and of its connection."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.abc
import pytest
import trio
import trustme

from kohort.client import ConsumerRecord
from kohort.queues.forward.answers import ANSWER_BYTES_MAX
from kohort.queues.forward.connections import host_header_of, target_of
from kohort.queues.forward.http import HttpService
from kohort.queues.forward.settings import Destination
from kohort.queues.forward.verdict import Action, Verdict

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
WITHIN_S = 60
Talk = Callable[[anyio.abc.SocketStream], Awaitable[None]]


class Server:
    """Talks as a test says, once for each request that has come whole; counts connections and requests."""

    def __init__(self, talk: Talk) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.url = ""
        self._talk = talk

    async def take(self, stream: anyio.abc.SocketStream) -> None:
        self.connections += 1
        read = b""
        async with stream:
            try:
                async for some in stream:
                    read += some
                    while (end := end_of_request(read)) is not None:
                        self.requests.append(read[:end])
                        read = read[end:]
                        await self._talk(stream)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


def end_of_request(read: bytes) -> int | None:
    """Return where a request ends, None as long as some of it is missing."""
    head, blank, _ = read.partition(b"\r\n\r\n")
    if not blank:
        return None
    lines = head.lower().split(b"\r\n")
    size = next(int(each[15:]) for each in lines if each.startswith(b"content-length:"))
    end = len(head) + 4 + size
    return end if len(read) >= end else None


@asynccontextmanager
async def serving(talk: Talk) -> AsyncIterator[Server]:
    server = Server(talk)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    server.url = f"http://127.0.0.1:{port}/push?a=1"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, server.take)
        yield server
        tasks.cancel_scope.cancel()


def saying(*answers: bytes) -> Talk:
    """Answer with these, one after the other, and the last one ever after."""
    left = list(answers)

    async def talk(stream: anyio.abc.SocketStream) -> None:
        await stream.send(left.pop(0) if len(left) > 1 else left[0])

    return talk


@asynccontextmanager
async def pushing(url: str, timeout_ms: int = 30_000) -> AsyncIterator[Callable[[], Awaitable[Verdict]]]:
    destination = Destination(name="d", topic="t", url=url, timeout_ms=timeout_ms)
    async with HttpService(destination) as service:
        yield lambda: service.push(ConsumerRecord("t", 0, 0, 0, None, b"value"), 1)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_connection_is_used_again_and_its_request_is_whole(backend: str) -> None:
    async def main() -> Server:
        chunks = CHUNKED + b"3\r\nyes\r\n0\r\n\r\n"
        interim = b"HTTP/1.1 100 Continue\r\n\r\n" + OK
        async with serving(saying(OK, chunks, interim)) as server, pushing(server.url) as push:
            for _ in range(4):
                assert (await push()).action is Action.DONE
            return server

    server = anyio.run(main, backend=backend)
    assert (server.connections, len(server.requests)) == (1, 4)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert (lines[0], body) == ("POST /push?a=1 HTTP/1.1", b"value")
    told = dict(line.lower().split(": ", 1) for line in lines[1:])
    assert told["host"] == urlsplit(server.url).netloc
    assert (told["content-length"], told["kafka-topic"]) == ("5", "t")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        OK + b"HTTP/1.1 500 Not asked for\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + bytes(ANSWER_BYTES_MAX + 1),
    ],
    ids=["said to close", "one answer too many", "too long an answer"],
)
async def test_a_connection_that_may_not_be_used_again_is_not(answer: bytes) -> None:
    async with serving(saying(answer)) as server, pushing(server.url) as push:
        for _ in range(3):
            assert (await push()).action is Action.DONE
    assert server.connections == 3


class TwoAnswers:
    """A TLS server whose system sends two answers at once, each in a record of its own."""

    def __init__(self, certificate: trustme.LeafCert) -> None:
        self.connections = 0
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.configure_cert(self._context)

    async def take(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._context.wrap_bio(arriving, leaving, server_side=True)
        is_open = False
        async with stream:
            async for data in stream:
                arriving.write(data)
                try:
                    if not is_open:
                        tls.do_handshake()
                        is_open = True
                    if tls.read(65_536):
                        tls.write(OK)
                        tls.write(b"HTTP/1.1 500 Not asked for\r\ncontent-length: 0\r\n\r\n")
                except ssl.SSLWantReadError:
                    pass
                if leaving.pending:
                    await stream.send_all(leaving.read())


async def test_an_answer_too_many_in_a_record_of_tls_is_nobodys(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server = TwoAnswers(authority.issue_cert("127.0.0.1"))
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, server.take, 0, host="127.0.0.1"))
        url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}/"
        destination = Destination(name="d", topic="t", url=url, ca_file=str(tmp_path / "ca.pem"))
        async with HttpService(destination) as service:
            for offset in range(3):
                verdict = await service.push(ConsumerRecord("t", 0, offset, 0, None, b"value"), 1)
                assert verdict.action is Action.DONE
        nursery.cancel_scope.cancel()
    assert server.connections == 3


async def test_a_connection_that_was_closed_meanwhile_costs_no_push() -> None:
    closed = trio.Event()

    async def talk(stream: anyio.abc.SocketStream) -> None:
        await stream.send(OK)
        await stream.aclose()
        closed.set()

    async with serving(talk) as server, pushing(server.url) as push:
        for _ in range(3):
            assert (await push()).action is Action.DONE
            await closed.wait()
            closed = trio.Event()
    assert server.connections == 3


@pytest.mark.parametrize(
    "half, words",
    [
        (b"", "closed"),
        (b"HTTP/1.1 200 O", "closed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "closed"),
        (CHUNKED + b"9\r\nhalf", "closed"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "illegal"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", ""),
    ],
)
async def test_half_an_answer_is_none(half: bytes, words: str) -> None:
    async def talk(stream: anyio.abc.SocketStream) -> None:
        await stream.send(half)
        await stream.aclose()

    async with serving(talk) as server, pushing(server.url) as push:
        verdict = await push()
    assert (verdict.action, verdict.is_failure) == (Action.RETRY, True)
    assert words in verdict.why


@pytest.mark.parametrize("begin", [b"HTTP/1.1 200 OK\r\nx-slow: ", CHUNKED])
async def test_an_answer_that_trickles_is_late_as_a_whole(begin: bytes) -> None:
    async def talk(stream: anyio.abc.SocketStream) -> None:
        await stream.send(begin)
        while True:  # Each byte comes in time.
            await trio.sleep(0.02)
            await stream.send(b"1\r\nx\r\n" if begin is CHUNKED else b"x")

    async with serving(talk) as server, pushing(server.url, timeout_ms=500) as push:
        with trio.fail_after(WITHIN_S):
            verdict = await push()
    assert (verdict.action, verdict.why) == (Action.RETRY, "no answer within 500 ms")


async def test_a_service_that_reads_nothing_is_late() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=1)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    destination = Destination(name="d", topic="t", url=f"http://127.0.0.1:{port}/", timeout_ms=1_000)
    async with listener, HttpService(destination) as service:
        verdict = await service.push(ConsumerRecord("t", 0, 0, 0, None, bytes(20_000_000)), 1)
    assert (verdict.action, verdict.why) == (Action.RETRY, "no answer within 1000 ms")


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_record_of_ten_megabytes_arrives_whole_and_keeps_its_connection(backend: str) -> None:
    body = bytes(range(256)) * 40_000

    async def main() -> Server:
        async with serving(saying(OK)) as server:
            destination = Destination(name="d", topic="t", url=server.url, timeout_ms=60_000)
            async with HttpService(destination) as service:
                for _ in range(2):
                    verdict = await service.push(ConsumerRecord("t", 0, 0, 0, None, body), 1)
                    assert verdict.action is Action.DONE
            return server

    server = anyio.run(main, backend=backend)
    assert server.connections == 1
    assert [each.partition(b"\r\n\r\n")[2] == body for each in server.requests] == [True, True]


async def test_an_answer_before_the_end_of_the_record_counts() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)

    async def refuse(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        async for _ in stream:  # A polite one reads on.
            pass

    destination = Destination(name="d", topic="t", url=f"http://127.0.0.1:{port}/")
    async with listener, anyio.create_task_group() as tasks, HttpService(destination) as service:
        tasks.start_soon(listener.serve, refuse)
        verdict = await service.push(ConsumerRecord("t", 0, 0, 0, None, bytes(5_000_000)), 1)
        tasks.cancel_scope.cancel()
    assert (verdict.action, verdict.why) == (Action.DEAD, "status 413")


async def test_where_nobody_listens_nobody_is_reached() -> None:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    await listener.aclose()
    async with pushing(f"http://127.0.0.1:{port}/") as push:
        verdict = await push()
    assert verdict.action is Action.UNREACHED
    assert "onnect" in verdict.why


@pytest.mark.parametrize(
    "url, target, host",
    [
        ("http://shop.example", "/", "shop.example"),
        ("http://shop.example:80/a/b?c=d&e", "/a/b?c=d&e", "shop.example"),
        ("https://shop.example:80/a%20b#part", "/a%20b", "shop.example:80"),
        ("http://[::1]:8080/x y/ü?q=ü", "/x%20y/%C3%BC?q=%C3%BC", "[::1]:8080"),
        ("https://bücher.example/", "/", "xn--bcher-kva.example"),
    ],
)
def test_what_a_request_says_of_an_address(url: str, target: str, host: str) -> None:
    parts = urlsplit(url)
    assert (target_of(parts), host_header_of(parts)) == (target, host)
