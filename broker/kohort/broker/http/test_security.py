"""Pages that are closed to strangers: TLS, and secrets by Basic or as a token."""

import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trustme

from kohort.broker.config import BrokerConfig, ConfigError
from kohort.broker.http import conversation, pages
from kohort.broker.http.credentials import Credentials, WrongCredentials
from kohort.broker.http.security import HttpSecurity
from kohort.broker.http.test_http import FakeView
from kohort.broker.transport.tls.test_key_updates import Records, secret_in

SECRET, OTHER = "a long secret", "another secret"
PATIENCE_SECONDS = 30
NEW_KEYS = 20_000
WRONG = [
    None,
    "",
    "Basic",
    "Basic ???",
    "Bearer",
    "Bearer ",
    f"bearer {SECRET}x",
    f"Digest {SECRET}",
    "Bearer " + "x" * 100_000,
    "Basic " + b64encode(b"alice").decode(),
    "Basic " + b64encode(b"alice:").decode(),
    "Basic " + b64encode(f"bob:{SECRET}".encode()).decode(),
    "Basic " + b64encode(f"nobody:{SECRET}".encode()).decode(),
    "Basic " + b64encode(b"alice:\xff\xfe").decode(),
    f"Bearer {SECRET}\x80",
]


def basic(name: str, secret: str) -> str:
    return "Basic " + b64encode(f"{name}:{secret}".encode()).decode()


def test_a_secret_is_known_by_basic_with_its_name_and_by_itself_as_a_token() -> None:
    known = Credentials(f"# who may look\n\nalice:{SECRET}\nbob:with:colons:12\n")
    assert known.knows(basic("alice", SECRET))
    assert known.knows(f"Bearer {SECRET}")
    assert known.knows(f"bearer  {SECRET} ")
    assert known.knows(basic("bob", "with:colons:12"))


@pytest.mark.parametrize("header", WRONG)
def test_nothing_else_is(header: str | None) -> None:
    assert not Credentials(f"alice:{SECRET}\nbob:{OTHER}").knows(header)


@pytest.mark.parametrize("text", ["", "# nobody", "alice", "alice:short", ":without a name", "a:\n"])
def test_a_file_that_names_nobody_well_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(WrongCredentials) as refused:
        Credentials(text)
    assert "short" not in str(refused.value)


def config(**more: Any) -> BrokerConfig:
    return BrokerConfig(kohort_ssl_reload_interval_ms=100, **more)


class Closed:
    """The pages behind TLS and a file with secrets."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.keys, self.file = folder / "server.pem", folder / "credentials"
        self.certify("first")
        self.file.write_text(f"alice:{SECRET}")
        self.view = FakeView()
        self.security = HttpSecurity(
            config(
                kohort_http_security_protocol="SSL",
                ssl_keystore_location=str(self.keys),
                kohort_http_credentials_file=str(self.file),
            )
        )
        self.port = 0

    def certify(self, name: str) -> None:
        made = self.authority.issue_cert("localhost", common_name=name)
        self.keys.write_bytes(made.private_key_and_cert_chain_pem.bytes())

    async def open(self, secrets: Path | None = None) -> trio.SSLStream[trio.SocketStream]:
        context = ssl.create_default_context()
        if secrets is not None:
            context.keylog_filename = str(secrets)
        self.authority.configure_trust(context)
        plain = await trio.open_tcp_stream("127.0.0.1", self.port)
        return trio.SSLStream(plain, context, server_hostname="localhost", https_compatible=True)

    async def said(self, path: str, header: str | None) -> tuple[int, bytes]:
        """Return the status, and the headers with the body."""
        stream, answer = await self.open(), b""
        more = "" if header is None else f"Authorization: {header}\r\n"
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n"
        with trio.fail_after(PATIENCE_SECONDS):
            await stream.send_all(request.encode("latin-1"))
            while data := await stream.receive_some():
                answer += data
        await stream.transport_stream.aclose()
        return int(answer.split()[1]), answer

    async def subject(self) -> str:
        stream = await self.open()
        await stream.do_handshake()
        found = stream.getpeercert()
        await stream.transport_stream.aclose()
        return str(found)


@pytest.fixture
async def closed(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Closed]:
    site = Closed(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        site.port = sock.getsockname()[1]
        nursery.start_soon(pages.serve, site.view, sock, (), site.security)
        yield site


async def test_a_page_is_shown_to_who_has_a_secret_and_to_nobody_else(closed: Closed) -> None:
    closed.view.health.wrong = ["the disk is full"]
    for path in ("/", "/metrics", "/api/v1/groups", "/api/v1/live/topics", "/page/live.js"):
        status, answer = await closed.said(path, None)
        assert status == 401
        assert b"www-authenticate: Basic realm=" in answer
        assert (await closed.said(path, basic("alice", SECRET)))[0] in (200, 404)
    assert (await closed.said("/metrics", f"Bearer {SECRET}"))[0] == 200
    assert (await closed.said("/metrics", f"Bearer {OTHER}"))[0] == 401


async def test_whether_the_broker_is_well_is_told_to_all_and_why_not_to_who_may_know(closed: Closed) -> None:
    closed.view.health.wrong = ["the disk is full"]
    assert (await closed.said("/health/live", None))[0] == 200
    status, answer = await closed.said("/health/ready", None)
    assert (status, b"disk" in answer, b'"not ready"' in answer) == (503, False, True)
    assert b"the disk is full" in (await closed.said("/health/ready", f"Bearer {SECRET}"))[1]


async def test_new_certificates_and_secrets_need_no_restart(closed: Closed) -> None:
    assert "first" in await closed.subject()
    closed.certify("second")
    closed.file.write_text(f"bob:{OTHER}")
    with trio.fail_after(PATIENCE_SECONDS):
        while "second" not in await closed.subject():
            await trio.sleep(0.05)
    assert (await closed.said("/metrics", f"Bearer {SECRET}"))[0] == 401
    assert (await closed.said("/metrics", f"Bearer {OTHER}"))[0] == 200
    closed.file.write_text("nobody")
    await trio.sleep(0.3)  # Three looks: what cannot be used changes nothing.
    assert (await closed.said("/metrics", f"Bearer {OTHER}"))[0] == 200


async def test_who_sends_nothing_but_new_keys_is_closed(
    closed: Closed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "HEADER_SECONDS", 3_600.0)
    stream = await closed.open(tmp_path / "secrets")
    await stream.do_handshake()
    records = Records(stream.cipher()[0], secret_in(tmp_path / "secrets"))
    flood = b"".join(records.update() for _ in range(NEW_KEYS))
    with trio.fail_after(PATIENCE_SECONDS), suppress(trio.BrokenResourceError):
        await stream.transport_stream.send_all(flood)
        assert await stream.transport_stream.receive_some() == b""
    await stream.transport_stream.aclose()
    assert (await closed.said("/health/live", None))[0] == 200


async def test_who_speaks_no_tls_is_told_nothing(closed: Closed) -> None:
    plain = await trio.open_tcp_stream("127.0.0.1", closed.port)
    with trio.fail_after(PATIENCE_SECONDS):
        await plain.send_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = await plain.receive_some()
    assert b"HTTP" not in answer
    await plain.aclose()


def test_what_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"kohort\.http\.credentials\.file"):
        HttpSecurity(config(kohort_http_credentials_file=str(tmp_path / "nowhere")))
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        HttpSecurity(config(kohort_http_security_protocol="SSL"))
