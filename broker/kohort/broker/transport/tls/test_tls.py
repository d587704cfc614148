"""Connections over TLS, through real sockets: handshakes, what no poller sees, strangers."""

import os
import socket
import ssl
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import cast

import pytest
import trio
import trustme

from kohort.broker.runtime.workers import TrioWorkers
from kohort.broker.transport import test_support
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.test_support import (
    FETCH,
    LIST_GROUPS,
    World,
    fetch,
    fetched,
    frame,
    list_groups,
    listed,
)
from kohort.broker.transport.tls.connection import HANDSHAKE_MS_MAX
from kohort.broker.transport.tls.handshakes import HALF_OPEN_MAX, Handshakes
from kohort.broker.transport.tls.stream import TlsTransport
from kohort.protocol.messages.fetch import FetchResponse
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.list_groups import ListGroupsResponse

AUTHORITY = trustme.CA()
STRANGE = trustme.CA()
REQUESTS = 64


class Secure:
    """A world whose one listener speaks TLS."""

    def __init__(self, world: World, handshakes: Handshakes) -> None:
        self.world = world
        self.handshakes = handshakes
        self.port = world.port

    async def connect(
        self, *, client: trustme.LeafCert | None = None, version: str = ""
    ) -> trio.SSLStream[trio.SocketStream]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        context = ssl.create_default_context()
        AUTHORITY.configure_trust(context)
        if client is not None:
            client.configure_cert(context)
        if version == "TLSv1.2":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        return trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)


@asynccontextmanager
async def secure(folder: Path, *settings: tuple[str, str], poller: str = "epoll") -> AsyncIterator[Secure]:
    (folder / "server.pem").write_bytes(
        AUTHORITY.issue_cert("localhost").private_key_and_cert_chain_pem.bytes()
    )
    (folder / "trusted.pem").write_bytes(AUTHORITY.cert_pem.bytes())
    given = [
        ("ssl.keystore.location", str(folder / "server.pem")),
        ("ssl.truststore.location", str(folder / "trusted.pem")),
        ("ssl.client.auth", "requested"),
        *settings,
    ]
    async with test_support.world(*given, poller=poller) as world, trio.open_nursery() as nursery:
        handshakes = Handshakes(
            world.current,
            world.counters,
            TrioWorkers(nursery),
            world.reactor.log,
            world.clock,
            on_authenticated=world.reactor.entered,
        )
        world.opens(handshakes.open)
        yield Secure(world, handshakes)
        nursery.cancel_scope.cancel()


async def answers(stream: trio.abc.ReceiveStream, count: int = 1) -> list[tuple[int, bytes]]:
    return await test_support.receive(cast(trio.SocketStream, stream), count)


@pytest.mark.parametrize("poller", ["epoll", "kqueue", "poll"])
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_requests_are_answered_in_their_order(tmp_path: Path, poller: str, version: str) -> None:
    async with secure(tmp_path, poller=poller) as here:
        stream = await here.connect(version=version)
        await stream.send_all(b"".join(map(frame, range(1, 101))))
        await here.world.until(lambda: len(here.world.asked) == 100)
        for _, request in here.world.asked:
            request.respond(HeartbeatResponse(error_code=0))
        assert [number for number, _ in await answers(stream, 100)] == list(range(1, 101))
        assert here.handshakes.half_open == 0
        assert here.world.asked[0][1].principal == "User:ANONYMOUS"


async def test_a_client_certificate_names_the_user(tmp_path: Path) -> None:
    rules = ("ssl.principal.mapping.rules", "RULE:^CN=([a-z]+),.*$/$1/U")
    async with secure(tmp_path, rules) as here:
        stream = await here.connect(client=AUTHORITY.issue_cert("alice@example.org", common_name="alice"))
        await stream.send_all(frame(1))
        await here.world.until(lambda: len(here.world.asked) == 1)
        assert here.world.asked[0][1].principal == "User:ALICE"
        nameless = await here.connect(client=AUTHORITY.issue_cert("bob@example.org", common_name="BOB"))
        with trio.fail_after(5):
            await fails(nameless)
        assert here.world.counters.failed_handshakes == 1


async def fails(stream: trio.SSLStream[trio.SocketStream]) -> None:
    """Return when the broker has refused the connection."""
    try:
        await stream.send_all(frame(9))
        assert await stream.receive_some() == b""
    except trio.BrokenResourceError:
        pass


@pytest.mark.parametrize("who", ["nobody", "stranger"])
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_a_client_without_a_trusted_certificate_cannot_send_requests(
    tmp_path: Path, who: str, version: str
) -> None:
    async with secure(tmp_path, ("ssl.client.auth", "required")) as here:
        client = STRANGE.issue_cert("eve@example.org") if who == "stranger" else None
        with trio.fail_after(5):
            await fails(await here.connect(client=client, version=version))
        await here.world.until(lambda: here.world.reactor.connections == 0)
        assert here.world.asked == []
        assert here.world.counters.failed_handshakes == 1
        assert here.handshakes.half_open == 0


async def test_a_client_without_tls_is_refused(tmp_path: Path) -> None:
    async with secure(tmp_path) as here:
        plain = await here.world.connect()
        await plain.send_all(frame(1))
        with trio.fail_after(5):
            assert (await plain.receive_some())[:2] == b"\x15\x03", "an alert of TLS"
            await here.world.until(lambda: here.world.reactor.connections == 0)
        assert here.world.counters.failed_handshakes == 1


@pytest.mark.parametrize("poller", ["epoll", "poll"])
async def test_a_large_request_leaves_no_bytes_behind(tmp_path: Path, poller: str) -> None:
    """What is decrypted beyond a frame's end is handed over though the poller knows nothing of it."""
    async with secure(tmp_path, poller=poller) as here:
        stream = await here.connect()
        for size in (70_000, 100_001, 200_003):
            large = frame(1, body=frame(1)[4 + 15 :] + b"\0" * size)
            with trio.fail_after(10):
                await stream.send_all(large + frame(2) + frame(3))
                await here.world.until(lambda: len(here.world.asked) == 3)
                for _, request in here.world.asked:
                    request.respond(HeartbeatResponse(error_code=0))
                here.world.asked.clear()
                assert [number for number, _ in await answers(stream, 3)] == [1, 2, 3]


async def test_records_are_sent_from_their_file_encrypted(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "log").write_bytes(content)
    descriptor = os.open(tmp_path / "log", os.O_RDONLY)
    async with secure(tmp_path) as here:
        here.world.handlers[FETCH] = lambda _, request: fetched(FileRange(descriptor, 1_000, 2_500_000, None))
        stream = await here.connect()
        await stream.send_all(fetch(9) + fetch(10))
        for number in (9, 10):
            [(correlation_id, answer)] = await one(stream)
            assert correlation_id == number
            records = FetchResponse.decode(answer[1:], 12).responses[0].partitions[0].records
            assert records is not None
            assert bytes(cast(bytes, records)) == content[1_000:2_501_000]
    os.close(descriptor)


async def one(stream: trio.SSLStream[trio.SocketStream]) -> list[tuple[int, bytes]]:
    """Return the next answer, and take nothing of the one behind it."""
    data = b""
    with trio.fail_after(20):
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            wanted = 4 - len(data) if len(data) < 4 else 4 + int.from_bytes(data[:4], "big") - len(data)
            more = await stream.receive_some(wanted)
            assert more
            data += more
    return [(int.from_bytes(data[4:8], "big"), data[8:])]


async def test_answers_wait_for_a_client_that_reads_slowly(tmp_path: Path) -> None:
    async with secure(tmp_path, ("socket.send.buffer.bytes", "16384")) as here:
        here.world.handlers[LIST_GROUPS] = lambda _, request: listed(1_500_000)
        stream = await here.connect()
        await stream.send_all(list_groups(1) + list_groups(2))
        await trio.testing.wait_all_tasks_blocked(0.1)
        for number in (1, 2):
            [(correlation_id, answer)] = await one(stream)
            assert correlation_id == number
            assert len(ListGroupsResponse.decode(answer[1:], 5).groups) == 1_500


async def test_a_handshake_has_a_deadline(tmp_path: Path) -> None:
    async with secure(tmp_path) as here:
        silent = await here.world.connect()
        dripping = await here.world.connect()
        await here.world.until(lambda: here.handshakes.half_open == 2)
        here.world.advance(HANDSHAKE_MS_MAX - 1_000)
        await dripping.send_all(b"\x16\x03\x01\x02\x00\x01")  # A record begins, and its client with it.
        late = await here.connect()
        await late.send_all(frame(1))
        await here.world.until(lambda: len(here.world.asked) == 1)
        here.world.advance(4_000)
        with trio.fail_after(5):
            assert await silent.receive_some() == b""
            assert await dripping.receive_some() == b""
        assert here.world.reactor.connections == 1, "who has shaken hands stays"


async def test_half_open_connections_are_displaced_by_new_ones(tmp_path: Path) -> None:
    async with secure(tmp_path) as here:
        silent = [await here.world.connect() for _ in range(HALF_OPEN_MAX + 20)]
        await here.world.until(lambda: here.world.counters.connections_accepted == len(silent))
        assert here.handshakes.half_open == HALF_OPEN_MAX
        with trio.fail_after(5):
            stream = await here.connect()
            await stream.send_all(frame(1))
            await here.world.until(lambda: len(here.world.asked) == 1)
        assert here.handshakes.half_open <= HALF_OPEN_MAX
        assert here.world.reactor.connections <= HALF_OPEN_MAX + 1
        for each in silent:
            await each.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is not this machine's")
async def test_a_flood_from_one_address_does_not_displace_clients_of_another(tmp_path: Path) -> None:
    async with secure(tmp_path) as here:
        halfway = await here.world.connect("127.0.0.2")
        silent = [await here.world.connect() for _ in range(HALF_OPEN_MAX + 20)]
        await here.world.until(lambda: here.world.counters.connections_accepted == len(silent) + 1)
        context = ssl.create_default_context()
        AUTHORITY.configure_trust(context)
        stream = trio.SSLStream(halfway, context, server_hostname="localhost", https_compatible=True)
        with trio.fail_after(20):
            await stream.send_all(frame(1))
            await here.world.until(lambda: len(here.world.asked) == 1)
        for each in silent:
            await each.aclose()


async def test_new_certificates_hold_for_new_connections(tmp_path: Path) -> None:
    async with secure(tmp_path) as here:
        before = await here.connect()
        await before.send_all(frame(1))
        await here.world.until(lambda: len(here.world.asked) == 1)
        replacement = AUTHORITY.issue_cert("localhost", common_name="the second")
        (tmp_path / "next.pem").write_bytes(replacement.private_key_and_cert_chain_pem.bytes())
        (tmp_path / "next.pem").replace(tmp_path / "server.pem")
        await here.handshakes.reload()
        after = await here.connect()
        await after.send_all(frame(2))
        await before.send_all(frame(3))
        await here.world.until(lambda: len(here.world.asked) == 3)
        assert ("commonName", "the second") in [pair for [pair] in after.getpeercert()["subject"]]
        (tmp_path / "server.pem").write_text("half a file")
        await here.handshakes.reload()
        again = await here.connect()
        await again.send_all(frame(4))
        await here.world.until(lambda: len(here.world.asked) == 4)


async def test_a_close_during_a_handshake_leaves_no_state(tmp_path: Path) -> None:
    async with secure(tmp_path) as here:
        for _ in range(5):
            stream = await here.world.connect()
            await stream.send_all(b"\x16\x03\x01")
            await stream.aclose()
        await here.world.until(lambda: here.world.counters.connections_closed == 5)
        assert here.handshakes.half_open == 0


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_all_requests_that_have_arrived_are_read_at_once(tmp_path: Path, version: str) -> None:
    """What arrives together is written together: a turn for each record would be a sync for each."""
    with between(tmp_path, version) as (transport, client):
        for number in range(REQUESTS):
            client.sendall(frame(number))  # A record of its own.
        sent = b"".join(map(frame, range(REQUESTS)))
        assert transport.receive(len(sent) - 1) == sent[:-1]
        assert transport.receive(len(sent)) == sent[-1:]
        client.sendall(frame(1))
        with suppress(ssl.SSLWantReadError):  # For our own end of it.
            client.unwrap()
        assert transport.receive(1_000) == frame(1)
        assert transport.receive(1_000) == b""


def test_requests_before_a_damaged_record_are_read(tmp_path: Path) -> None:
    with between(tmp_path, "TLSv1.3") as (transport, client):
        client.sendall(frame(1))
        os.write(client.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
        assert transport.receive(1_000) == frame(1)
        with pytest.raises(OSError):
            transport.receive(1_000)


@contextmanager
def between(folder: Path, version: str) -> Iterator[tuple[TlsTransport, ssl.SSLSocket]]:
    """Give both ends of a connection that have shaken hands."""
    (folder / "key").write_bytes(AUTHORITY.issue_cert("localhost").private_key_and_cert_chain_pem.bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "key")
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)
    trusting.maximum_version = ssl.TLSVersion[version.replace(".", "_")]
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    transport = TlsTransport(ours, context)
    with trusting.wrap_socket(theirs, do_handshake_on_connect=False, server_hostname="localhost") as client:
        waiting: list[Callable[[], None]] = [client.do_handshake, transport.shake_hands]
        while waiting:
            for shake_hands in tuple(waiting):
                with suppress(BlockingIOError, ssl.SSLWantReadError):
                    shake_hands()
                    waiting.remove(shake_hands)
        yield transport, client
        transport.close()


def test_openssl_memory_is_freed_at_close(tmp_path: Path) -> None:
    """A connection that has closed may wait for the collector, with all that it still refers to."""
    (tmp_path / "key").write_bytes(AUTHORITY.issue_cert("localhost").private_key_and_cert_chain_pem.bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "key")
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        transport = TlsTransport(ours, context)
        theirs.sendall(b"\x16\x03\x01\x02\x00\x01")
        with pytest.raises(BlockingIOError):
            transport.shake_hands()
        held = weakref.ref(transport._tls)
        transport.close()
        assert held() is None
