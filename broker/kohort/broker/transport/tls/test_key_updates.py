"""Clients that have TLS do work and send nothing: new keys again and again, and sessions of long ago.

OpenSSL goes from record to record by itself until there is data, or nothing more has arrived. What no library
lets a client do is written here by hand: records of TLS 1.3, by the secret that the handshake has left.
"""

import hmac
import socket
import ssl
import struct
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from kohort.broker.transport.test_support import HEARTBEAT, frame
from kohort.broker.transport.tls.test_tls import AUTHORITY, Secure, answers, secure
from kohort.protocol.messages.heartbeat import HeartbeatResponse

KEY_UPDATE = b"\x18\0\0\1"
HANDSHAKE, DATA = b"\x16", b"\x17"
MANY = 20_000
A_FEW = 40
SECRET = "CLIENT_TRAFFIC_SECRET_0"


class Records:
    """Writes what a client sends after its handshake, under keys that it may change."""

    def __init__(self, cipher: str, secret: bytes) -> None:
        self._hash = "sha384" if cipher.endswith("384") else "sha256"
        self._key_bytes = 16 if "_128_" in cipher else 32
        self._aead = ChaCha20Poly1305 if "CHACHA20" in cipher else AESGCM
        self._begin(secret)

    def _begin(self, secret: bytes) -> None:
        self._secret, self._sequence = secret, 0
        self._under = self._aead(self._derived(b"key", self._key_bytes))
        self._nonce = int.from_bytes(self._derived(b"iv", 12), "big")

    def _derived(self, label: bytes, size: int) -> bytes:
        """HKDF-Expand-Label of RFC 8446, 7.1, for what one digest is enough for."""
        told = struct.pack(">HB", size, 6 + len(label)) + b"tls13 " + label + b"\0"
        return hmac.digest(self._secret, told + b"\1", self._hash)[:size]

    def record(self, content: bytes, kind: bytes = DATA) -> bytes:
        """Return one record."""
        head = b"\x17\x03\x03" + struct.pack(">H", len(content) + 17)
        nonce = (self._nonce ^ self._sequence).to_bytes(12, "big")
        self._sequence += 1
        return head + self._under.encrypt(nonce, content + kind, head)

    def update(self, *, asks_for_one: bool = False) -> bytes:
        """Return the record behind which the next keys hold."""
        sealed = self.record(KEY_UPDATE + bytes([asks_for_one]), HANDSHAKE)
        self._begin(self._derived(b"traffic upd", len(self._secret)))
        return sealed


def secret_in(file: Path) -> bytes:
    """Return what a client's keys are derived from, of the one handshake that the file is about."""
    [found] = [line.split()[2] for line in file.read_text().splitlines() if line.startswith(SECRET)]
    return bytes.fromhex(found)


class ByHand:
    """A client that has shaken hands, and writes its own records since."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream], records: Records) -> None:
        self.stream = stream
        self.records = records

    async def send(self, data: bytes) -> None:
        await self.stream.transport_stream.send_all(data)


async def by_hand(here: Secure, folder: Path) -> ByHand:
    plain = await trio.open_tcp_stream("127.0.0.1", here.port)
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(folder / "secrets")
    stream = trio.SSLStream(plain, context, server_hostname="localhost", https_compatible=True)
    await stream.do_handshake()
    return ByHand(stream, Records(stream.cipher()[0], secret_in(folder / "secrets")))


async def asked(here: Secure, count: int) -> None:
    await here.world.until(lambda: len(here.world.asked) == count)


async def test_key_updates_between_requests_are_accepted(tmp_path: Path) -> None:
    async with secure(tmp_path) as here:
        client = await by_hand(here, tmp_path)
        for number in range(1, A_FEW + 1):
            asks = number % 2 == 0
            half = len(frame(number)) // 2
            await client.send(
                client.records.update(asks_for_one=asks)
                + client.records.record(frame(number)[:half])
                + client.records.update(asks_for_one=asks)
                + client.records.record(frame(number)[half:])
            )
            await asked(here, number)
            here.world.asked[-1][1].respond(HeartbeatResponse(error_code=0))
            assert [each for each, _ in await answers(client.stream)] == [number]


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("begun", [b"", frame(1)[:9]])
async def test_a_client_that_sends_only_key_updates_is_closed(
    tmp_path: Path, begun: bytes, asks: bool
) -> None:
    async with secure(tmp_path) as here:
        client = await by_hand(here, tmp_path)
        flood = [client.records.record(begun)] if begun else []
        flood += [client.records.update(asks_for_one=asks) for _ in range(MANY)]
        with trio.fail_after(30), suppress(trio.BrokenResourceError):
            await client.send(b"".join(flood))
        await here.world.until(lambda: here.world.reactor.connections == 0)
        assert here.world.asked == []


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_a_session_is_good_no_longer_than_its_clients_certificate(tmp_path: Path, version: str) -> None:
    async with secure(tmp_path, ("ssl.client.auth", "required")) as here:
        now = datetime.now(UTC)
        here.world.clock.wall_ahead_ms = int(now.timestamp() * 1000) - here.world.clock.now_ms()
        certificate = AUTHORITY.issue_cert(
            "alice@example.org", common_name="alice", not_after=now + timedelta(days=1)
        )
        context = ssl.create_default_context()
        AUTHORITY.configure_trust(context)
        certificate.configure_cert(context)
        context.maximum_version = ssl.TLSVersion[version.replace(".", "_")]

        def asks(number: int, session: ssl.SSLSession | None = None) -> tuple[ssl.SSLSession | None, bool]:
            """Ask once; return the session then, and whether it is the one that was given. Blocks."""
            plain = socket.create_connection(("127.0.0.1", here.port), 20)
            with context.wrap_socket(plain, server_hostname="localhost", session=session) as stream:
                stream.sendall(frame(number))
                stream.recv(4)
                return stream.session, bool(stream.session_reused)

        here.world.handlers[HEARTBEAT] = lambda _, request: HeartbeatResponse(error_code=0)
        session, _ = await trio.to_thread.run_sync(asks, 1)
        assert session is not None
        _, is_reused = await trio.to_thread.run_sync(asks, 2, session)
        assert is_reused, "as long as the certificate is good, so is the session"
        here.world.clock.wall_ahead_ms += 25 * 3_600_000
        with suppress(OSError):
            await trio.to_thread.run_sync(asks, 3, session)
        await here.world.until(lambda: here.world.counters.failed_handshakes == 1)
