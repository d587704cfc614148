"""Strangers in such numbers that there is no room: who means to log in does, super users too."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.request import Request, urlopen

from tests.security.guarded import PASSWORD, PLAIN_USERS, USER, Guarded, guarded
from tests.security.test_sasl_attacks import address, framed, shaken, shown

PLAIN_SETTINGS = ("sasl.enabled.mechanisms=PLAIN", f"sasl.jaas.config={PLAIN_USERS}")
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PATIENCE_S = 20.0


def answer_of(client: socket.socket) -> bytes:
    """Return the next answer. Raises: OSError where there is none."""
    head = client.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise ConnectionResetError("closed")
    return client.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)


def logs_in(target: tuple[str, int], user: str = USER, password: str = PASSWORD) -> bool:
    """Log in; return whether that was let."""
    with socket.socket() as client, suppress(OSError):
        client.settimeout(PATIENCE_S)
        client.connect(target)
        for words in (shaken("PLAIN"), shown(f"\0{user}\0{password}".encode())):
            client.sendall(words)
            answer = answer_of(client)
        return answer[4:6] == b"\0\0"
    return False


def held(here: Guarded, count: int, user: str, password: str, stack: ExitStack) -> int:
    """Log in so often and stay; return how many were let in and are there."""
    there = []
    for _ in range(count):
        client = stack.enter_context(socket.create_connection(address(here), PATIENCE_S))
        client.settimeout(PATIENCE_S)
        with suppress(OSError):
            for words in (shaken("PLAIN"), shown(f"\0{user}\0{password}".encode())):
                client.sendall(words)
                answer_of(client)
            there.append(client)
    return len(there)


def test_a_user_without_rights_cannot_shut_out_others(tmp_path: Path) -> None:
    users = 'PlainLoginModule required user_alice="secret" user_bob="bob-secret" user_eve="eve";'
    settings = (
        "sasl.enabled.mechanisms=PLAIN",
        f"sasl.jaas.config={users}",
        AUTHORIZER,
        "super.users=User:alice",
    )
    with guarded(tmp_path, *settings, "max.connections=64") as here, ExitStack() as stack:
        assert held(here, 200, "eve", "eve", stack) >= 64
        for user, password in (("alice", "secret"), ("bob", "bob-secret")) * 4:
            assert held(here, 1, user, password, stack), user
            with socket.create_connection(address(here), PATIENCE_S) as client:
                client.settimeout(PATIENCE_S)
                for words in (shaken("PLAIN"), shown(f"\0{user}\0{password}".encode()), framed(18, 0, b"")):
                    client.sendall(words)
                    assert answer_of(client), user


def test_unauthenticated_connections_in_every_slot_shut_out_nobody(tmp_path: Path) -> None:
    with guarded(tmp_path, *PLAIN_SETTINGS, "max.connections=40") as here, ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(address(here), PATIENCE_S))
        assert held(here, 20, USER, PASSWORD, stack) == 20


@contextmanager
def guessing(http: str, count: int) -> Iterator[None]:
    """Show wrong secrets on so many connections, again and again, within the block."""
    is_over = threading.Event()
    host, port = http.rsplit(":", 1)
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n"

    def guess() -> None:
        while not is_over.is_set():
            with suppress(OSError), socket.create_connection((host, int(port)), PATIENCE_S) as client:
                client.settimeout(1.0)
                while not is_over.is_set():
                    client.sendall(request)
                    if not client.recv(65_536):
                        break

    with ThreadPoolExecutor(count) as threads:
        came = [threads.submit(guess) for _ in range(count)]
        try:
            time.sleep(1.0)
            yield
        finally:
            is_over.set()
        for each in came:
            each.result()


def test_guessing_http_secrets_shuts_out_nobody(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("pages:a secret of pages\n")
    with (
        guarded(tmp_path, *PLAIN_SETTINGS, f"kohort.http.credentials.file={tmp_path}/credentials") as here,
        guessing(here.broker.http, 36),
    ):
        for _ in range(30):
            with urlopen(f"http://{here.broker.http}/health/live", timeout=PATIENCE_S) as answer:
                assert answer.status == 200
            known = Request(
                f"http://{here.broker.http}/metrics", headers={"Authorization": "Bearer a secret of pages"}
            )
            with urlopen(known, timeout=PATIENCE_S) as answer:
                assert answer.status == 200
            time.sleep(0.05)
