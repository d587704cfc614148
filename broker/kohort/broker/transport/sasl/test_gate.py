"""Clients that have not authenticated at a listener with SASL, through real sockets."""

import random
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import pytest
import trio

from kohort.broker.runtime.lock_out import LockOut
from kohort.broker.transport import pending_connections, random_set, test_support
from kohort.broker.transport.reactor import open_plain
from kohort.broker.transport.sasl.gate import (
    AUTHENTICATION_MS_MAX,
    REQUESTS_MAX,
    UNAUTHENTICATED_MAX,
    Gate,
    UnauthenticatedConnections,
)
from kohort.broker.transport.sasl.plain import Plain
from kohort.broker.transport.test_support import API_VERSIONS, World, frame
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersionsResponse
from kohort.protocol.messages.heartbeat import HeartbeatResponse
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kohort.protocol.schema import Message

HANDSHAKE, AUTHENTICATE = 17, 36
RIGHT = b"\0alice\0secret"
WRONG = b"\0alice\0guess"
DELAY_MS = 100
LOGINS = 24

Answer = TypeVar("Answer", bound=Message)


class Guarded:
    """A world whose one listener wants to know who comes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.unauthenticated = UnauthenticatedConnections(world.timers, world.clock, world.reactor.log)
        users = {"alice": "secret", "bob": "other"}
        self.gate = Gate(
            open_plain,
            {"PLAIN": partial(Plain, users)},
            self.unauthenticated,
            world.current,
            timers=world.timers,
            clock=world.clock,
            counters=world.counters,
            log=world.reactor.log,
            on_authenticated=world.reactor.entered,
            lock_out=LockOut(),
        )
        world.opens(self.gate.open)
        world.handlers[API_VERSIONS] = lambda message, request: ApiVersionsResponse(error_code=0, api_keys=())

    async def connect(self, source: str | None = None) -> "Client":
        return Client(self, await self.world.connect(source))


class Client:
    """Asks one thing after the other."""

    def __init__(self, here: Guarded, stream: trio.SocketStream) -> None:
        self.here = here
        self.stream = stream
        self.asked = 0

    async def send(self, api_key: int, version: int, body: bytes) -> None:
        self.asked += 1
        data = frame(self.asked, api_key=api_key, version=version, body=body)
        if (api_key, version) != (AUTHENTICATE, 2):  # Its header has no tagged fields.
            data = data[:18] + data[19:]
            data = struct.pack(">i", len(data) - 4) + data[4:]
        await self.stream.send_all(data)

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        await self.send(HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism).encode(version))
        [(_, answer)] = await test_support.receive(self.stream)
        return SaslHandshakeResponse.decode(answer, version)

    async def show(self, token: bytes, version: int = 2, *, waits: bool = False) -> SaslAuthenticateResponse:
        before = self.here.world.counters.failed_authentications
        await self.send(AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token).encode(version))
        if waits:
            await self.here.world.until(lambda: self.here.world.counters.failed_authentications > before)
            self.here.world.advance(DELAY_MS)
        [(_, answer)] = await test_support.receive(self.stream)
        return SaslAuthenticateResponse.decode(answer[1:] if version == 2 else answer, version)

    async def enter(self, token: bytes = RIGHT) -> SaslAuthenticateResponse:
        await self.handshake()
        return await self.show(token)

    async def beat(self) -> str:
        """Ask what only those who are known may; return as whom."""
        asked = self.here.world.asked
        await self.stream.send_all(frame(1))
        await self.here.world.until(lambda: bool(asked))
        _, request = asked.pop()
        request.respond(HeartbeatResponse(error_code=0))
        await test_support.receive(self.stream)
        return request.principal

    def is_displaced(self) -> bool:
        """Return whether the broker has closed the connection, of which no answer is left to read."""
        return self.stream.socket.is_readable()

    async def is_closed(self) -> bool:
        with trio.fail_after(5):
            try:
                return await self.stream.receive_some() == b""
            except trio.BrokenResourceError:
                return True


@asynccontextmanager
async def guarded(*settings: tuple[str, str], poller: str = "epoll") -> AsyncIterator[Guarded]:
    async with test_support.world(*settings, poller=poller) as world:
        yield Guarded(world)


@pytest.mark.parametrize("poller", ["epoll", "kqueue", "poll"])
@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_authenticated_client_acts_as_its_user(poller: str, version: int) -> None:
    async with guarded(poller=poller) as here:
        client = await here.connect()
        await client.send(API_VERSIONS, 0, b"")
        await test_support.receive(client.stream)
        assert await client.handshake() == SaslHandshakeResponse(error_code=0, mechanisms=("PLAIN",))
        assert len(here.unauthenticated) == 1
        assert (await client.show(RIGHT, version)).error_code == ErrorCode.NONE
        assert await client.beat() == "User:alice"
        assert len(here.unauthenticated) == 0
        assert here.world.counters.authentications == 1


async def test_tokens_can_be_sent_without_headers() -> None:
    async with guarded() as here:
        client = await here.connect()
        await client.handshake(version=0)
        await client.stream.send_all(struct.pack(">i", len(RIGHT)) + RIGHT)
        assert await client.stream.receive_some(4) == b"\0\0\0\0"
        assert await client.beat() == "User:alice"


async def test_a_wrong_token_without_a_header_ends_the_connection() -> None:
    async with guarded() as here:
        client = await here.connect()
        await client.handshake(version=0)
        await client.stream.send_all(struct.pack(">i", len(WRONG)) + WRONG)
        await here.world.until(lambda: here.world.counters.failed_authentications == 1)
        here.world.advance(DELAY_MS)
        assert await client.is_closed()


@pytest.mark.parametrize(
    "token",
    [WRONG, b"\0eve\0secret", b"", b"\0\0", b"\0alice\0", b"alice", b"bob\0alice\0secret", b"\xff\0a\0b"],
)
async def test_a_wrong_token_is_answered_with_an_error_after_a_delay(token: bytes) -> None:
    async with guarded() as here:
        client = await here.connect()
        await client.handshake()
        await client.send(AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token).encode(1))
        await here.world.until(lambda: here.world.counters.failed_authentications == 1)
        here.world.advance(DELAY_MS - 1)
        with trio.move_on_after(0.05):
            pytest.fail(repr(await client.stream.receive_some()))
        here.world.advance(1)
        [(_, answer)] = await test_support.receive(client.stream)
        told = SaslAuthenticateResponse.decode(answer, 1)
        assert told.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert told.error_message is not None
        assert told.error_message.startswith("Authentication failed")
        assert await client.is_closed()
        assert here.world.asked == []
        assert len(here.unauthenticated) == 0


async def test_an_unknown_user_gets_the_same_answer_as_a_wrong_password() -> None:
    async with guarded() as here:
        told = []
        for token in (WRONG, b"\0eve\0guess"):
            client = await here.connect()
            await client.handshake()
            told.append(await client.show(token, waits=True))
        assert told[0] == told[1]


async def test_an_unknown_mechanism_is_answered_with_the_enabled_ones() -> None:
    async with guarded(("connection.failed.authentication.delay.ms", "0")) as here:
        client = await here.connect()
        answer = await client.handshake("GSSAPI")
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ("PLAIN",))
        assert await client.is_closed()


async def test_any_other_request_of_an_unauthenticated_client_closes_the_connection() -> None:
    async with guarded() as here:
        for before in (False, True):
            client = await here.connect()
            if before:
                await client.handshake()
            await client.stream.send_all(frame(1))
            assert await client.is_closed()
        again = await here.connect()
        await again.handshake()
        await again.send(HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN").encode(1))
        assert await again.is_closed()
        early = await here.connect()
        await early.send(AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=RIGHT).encode(1))
        assert await early.is_closed()
        assert here.world.asked == []


async def test_requests_of_an_unauthenticated_client_are_limited() -> None:
    async with guarded() as here:
        client = await here.connect()
        for _ in range(REQUESTS_MAX):
            await client.send(API_VERSIONS, 0, b"")
            await test_support.receive(client.stream)
        await client.send(API_VERSIONS, 0, b"")
        assert await client.is_closed()


async def test_frames_of_an_unauthenticated_client_are_limited() -> None:
    async with guarded(("sasl.server.max.receive.size", "1024")) as here:
        stranger = await here.connect()
        await stranger.stream.send_all(struct.pack(">i", 1025))
        assert await stranger.is_closed()
        friend = await here.connect()
        await friend.enter()
        await friend.stream.send_all(frame(1, body=frame(1)[4 + 15 :] + b"\0" * 100_000))
        await here.world.until(lambda: len(here.world.asked) == 1)


async def test_only_unauthenticated_clients_have_a_deadline() -> None:
    async with guarded() as here:
        silent, halfway, friend = [await here.connect() for _ in range(3)]
        await halfway.handshake()
        await friend.enter()
        here.world.advance(AUTHENTICATION_MS_MAX - 1)
        late = await here.connect()
        await late.handshake()
        here.world.advance(1)
        assert await silent.is_closed()
        assert await halfway.is_closed()
        assert (await late.show(RIGHT)).error_code == 0
        assert await friend.beat() == "User:alice"


async def test_a_silent_unauthenticated_client_is_closed_first() -> None:
    async with guarded() as here:
        silent = [await here.connect() for _ in range(UNAUTHENTICATED_MAX)]
        await here.world.until(lambda: len(here.unauthenticated) == UNAUTHENTICATED_MAX)
        friend = await here.connect()
        await friend.enter()
        assert await friend.beat() == "User:alice"
        assert here.world.reactor.connections == UNAUTHENTICATED_MAX
        assert len(here.unauthenticated) == UNAUTHENTICATED_MAX - 1
        for each in silent:
            await each.stream.aclose()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is not this machine's")
async def test_a_flood_from_one_address_does_not_displace_clients_of_another() -> None:
    async with guarded() as here:
        friend = await here.connect("127.0.0.2")
        await friend.handshake()
        silent = [await here.connect() for _ in range(UNAUTHENTICATED_MAX + 20)]
        await here.world.until(lambda: here.world.counters.connections_accepted == len(silent) + 1)
        assert (await friend.show(RIGHT)).error_code == 0
        assert await friend.beat() == "User:alice"
        for each in silent:
            await each.stream.aclose()


async def silent_flood(here: Guarded, strangers: list[Client], number: int) -> list[Client]:
    """Connect from as many addresses as there are places. Return all strangers that have a place."""
    accepted = here.world.counters.connections_accepted + UNAUTHENTICATED_MAX
    hosts = [f"127.{number}.{each // 128}.{1 + each % 128}" for each in range(UNAUTHENTICATED_MAX)]
    strangers = [*strangers, *[await here.connect(each) for each in hosts]]
    await here.world.until(
        lambda: (
            here.world.counters.connections_accepted == accepted
            and here.world.reactor.connections == UNAUTHENTICATED_MAX
        )
    )
    for each in strangers:
        if each.is_displaced():
            await each.stream.aclose()
    return [each for each in strangers if each.stream.socket.fileno() >= 0]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.2 is not this machine's")
@pytest.mark.parametrize("seed", range(3))
async def test_clients_log_in_during_a_silent_flood_from_everywhere(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the oldest first no client keeps its place: so many strangers come before each of its words."""
    randrange = random.Random(seed).randrange
    monkeypatch.setattr(pending_connections, "randbelow", randrange)
    monkeypatch.setattr(random_set, "randbelow", randrange)
    async with guarded() as here:
        strangers = await silent_flood(here, [], 1)
        clients = [await here.connect(f"127.2.2.{1 + each}") for each in range(LOGINS)]
        strangers = await silent_flood(here, strangers, 3)
        spoke = [each for each in clients if not each.is_displaced()]
        assert len(spoke) >= LOGINS // 6  # A silent one stays with (1 - 1/256)^256: 9 of 24.
        for each in spoke:
            await each.handshake()
        strangers = await silent_flood(here, strangers, 4)
        came = [each for each in spoke if not each.is_displaced()]
        assert len(came) >= len(spoke) * 3 // 4  # A silent connection goes before one that has sent a word.
        for each in came:
            assert (await each.show(RIGHT)).error_code == 0
        for each in (*strangers, *clients):
            await each.stream.aclose()


async def test_a_client_can_reauthenticate_and_others_are_closed() -> None:
    async with guarded(("connections.max.reauth.ms", "5000")) as here:
        first, second = await here.connect(), await here.connect()
        assert (await first.enter()).session_lifetime_ms == 5_000
        await second.enter()
        here.world.advance(4_000)
        assert (await first.enter()).session_lifetime_ms == 5_000
        here.world.advance(4_000)
        assert await first.beat() == "User:alice"
        await second.stream.send_all(frame(1))
        assert await second.is_closed()
        assert here.world.counters.expired_connections == 1
        here.world.advance(2_000)
        assert (await first.enter()).session_lifetime_ms == 5_000, "late, but nothing was asked meanwhile"
        assert await first.beat() == "User:alice"


async def test_a_client_cannot_reauthenticate_as_another_user() -> None:
    async with guarded() as here:
        client = await here.connect()
        await client.enter()
        await client.handshake()
        answer = await client.show(b"\0bob\0other", waits=True)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await client.is_closed()


async def test_an_unexpected_token_is_refused() -> None:
    async with guarded() as here:
        client = await here.connect()
        await client.enter()
        assert (await client.show(RIGHT)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.beat() == "User:alice"


async def test_closed_clients_leave_no_state() -> None:
    async with guarded() as here:
        for number in range(6):
            client = await here.connect()
            if number % 2:
                await client.handshake()
            if number % 3:
                await client.stream.send_all(b"\0\0")
            await client.stream.aclose()
        await here.world.until(lambda: here.world.counters.connections_closed == 6)
        assert len(here.unauthenticated) == 0
        assert here.gate._sessions == {}
