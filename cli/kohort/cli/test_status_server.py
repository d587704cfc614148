"""The small HTTP server of long-running commands, asked by strangers and by silent connections."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kohort.broker.http.questions import Question
from kohort.cli import status_server
from kohort.cli.status_server import NOT_FOUND, Page, StatusServer
from tests.interop.waiting import wait_until


def page(question: Question) -> Page:
    return Page(200, "text/plain", b"well") if question.path == "/" else NOT_FOUND


@pytest.fixture
def server() -> Iterator[StatusServer]:
    made = StatusServer("127.0.0.1:0", page)
    try:
        yield made
    finally:
        made.close()


def connect(server: StatusServer) -> socket.socket:
    return socket.create_connection(server.server_address[:2], timeout=20)  # type: ignore[arg-type]  # IPv4.


def ask(server: StatusServer, path: str, host: str | None) -> bytes:
    with connect(server) as connection:
        header = "" if host is None else f"Host: {host}\r\n"
        connection.sendall(f"GET {path} HTTP/1.0\r\n{header}\r\n".encode())
        with connection.makefile("rb") as answer:
            return answer.read()


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "[::1]:9", socket.gethostname(), None])
def test_the_names_of_this_machine_are_answered(server: StatusServer, host: str | None) -> None:
    answer = ask(server, "/", host)
    assert answer.startswith(b"HTTP/1.0 200 ")
    assert answer.endswith(b"\r\n\r\nwell")
    assert b"content-security-policy" in answer
    assert ask(server, "/nothing", host).startswith(b"HTTP/1.0 404 ")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io"]
)
def test_a_name_that_somebody_points_here_is_refused(server: StatusServer, host: str) -> None:
    answer = ask(server, "/", host)
    assert answer.startswith(b"HTTP/1.0 421 ")
    assert b"well" not in answer


def is_open(connection: socket.socket) -> bool:
    """Return whether the server has not closed a connection on which it has sent nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True


def is_answered(server: StatusServer) -> bool:
    try:
        return ask(server, "/", "localhost").endswith(b"well")
    except ConnectionError:
        return False


def test_connections_beyond_the_limit_are_closed_at_once(server: StatusServer) -> None:
    with ExitStack() as stack:
        first = [stack.enter_context(connect(server)) for _ in range(status_server.CONNECTIONS_MAX)]
        more = [stack.enter_context(connect(server)) for _ in range(20)]
        assert [each.recv(1) for each in more] == [b""] * len(more)
        assert all(map(is_open, first))


def test_silent_connections_make_room_when_their_time_is_over(
    monkeypatch: pytest.MonkeyPatch, server: StatusServer
) -> None:
    monkeypatch.setattr(status_server, "CONNECTION_SECONDS_MAX", 0.1)
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(server)) for _ in range(status_server.CONNECTIONS_MAX)]
        assert [each.recv(1) for each in silent] == [b""] * len(silent)
        wait_until(lambda: is_answered(server), "room for another, while their clients still hold them")


def test_connections_that_got_no_thread_take_no_place(
    monkeypatch: pytest.MonkeyPatch, server: StatusServer
) -> None:
    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patches:
        patches.setattr(threading.Thread, "start", start)
        for _ in range(status_server.CONNECTIONS_MAX):
            with connect(server) as refused:
                assert refused.recv(1) == b""
    assert is_answered(server)
