"""A proxy before any broker that shows what goes through it. It changes nothing else than addresses."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import trio

from kohort.cli.wire_frames import FRAME_BYTES_MAX, Conversation, Reading
from kohort.protocol.errors import EncodeError, WireError
from kohort.protocol.framing import LENGTH_BYTES, FrameReader
from kohort.protocol.headers import response_body
from kohort.protocol.registry import Api
from kohort.protocol.schema import Message

RECEIVE_BYTES = 65_536
CONNECT_SECONDS = 30
SILENCE_SECONDS = 60
"""So long a broker may go on answering a client that has nothing more to say."""
TELL_BROKERS = frozenset(
    ("Metadata", "FindCoordinator", "DescribeCluster", "Produce", "Fetch", "ShareFetch", "ShareAcknowledge")
)
"""Whose answers say at which addresses brokers are."""

Address = tuple[str, int]
Show = Callable[[Address, Address, Reading | None, str], None]
"""Takes who says it, to whom, the frame, and what went wrong."""
Side = tuple[Address, Address]
GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


class Proxy:
    """Takes connections, makes each anew to a broker, and shows the frames of both sides."""

    def __init__(self, show: Show, nursery: trio.Nursery, *, rewrites: bool, shows_secrets: bool) -> None:
        self._show = show
        self._nursery = nursery
        self._rewrites = rewrites
        self._shows_secrets = shows_secrets
        self._host = ""
        self._ports: dict[Address, int] = {}  # Where the proxy listens, by the broker behind it.

    async def listen(self, address: Address, broker: Address) -> int:
        """Take connections for a broker there from now on; return the port."""
        host, port = address
        self._host = self._host or host
        listeners: list[trio.SocketListener] = await self._nursery.start(
            partial(trio.serve_tcp, partial(self._serve, broker), port, host=host)
        )
        bound: int = listeners[0].socket.getsockname()[1]
        self._ports[broker] = bound
        return bound

    async def _serve(self, broker: Address, client: trio.SocketStream) -> None:
        try:
            peer: Address = client.socket.getpeername()[:2]
        except OSError:
            return  # It has gone again.
        try:
            with trio.fail_after(CONNECT_SECONDS):
                upstream = await trio.open_tcp_stream(*broker)
        except (OSError, trio.TooSlowError) as error:
            words = str(error) or f"it did not answer in {CONNECT_SECONDS} s"
            self._show(peer, broker, None, f"the broker cannot be reached: {words}")
            await trio.aclose_forcefully(client)
            return
        talk = Conversation(shows_secrets=self._shows_secrets)
        async with client, upstream, trio.open_nursery() as both:
            both.start_soon(self._requests, client, upstream, talk, (peer, broker), both.cancel_scope)
            with suppress(*GONE):
                await self._answers(upstream, client, talk, (broker, peer))
            both.cancel_scope.cancel()

    async def _requests(
        self,
        client: trio.SocketStream,
        upstream: trio.SocketStream,
        talk: Conversation,
        side: Side,
        scope: trio.CancelScope,
    ) -> None:
        reader = _Frames(self._show, side)
        with suppress(*GONE):
            while data := await client.receive_some(RECEIVE_BYTES):
                for frame in reader.of(bytes(data)):  # Noted first: the answer may be back soon.
                    self._show(*side, talk.request(frame), "")
                await upstream.send_all(data)
            await upstream.send_eof()
        scope.deadline = trio.current_time() + SILENCE_SECONDS  # A broker that hangs would keep it for ever.

    async def _answers(
        self, upstream: trio.SocketStream, client: trio.SocketStream, talk: Conversation, side: Side
    ) -> None:
        reader = _Frames(self._show, side)
        while data := await upstream.receive_some(RECEIVE_BYTES):
            if not self._rewrites:
                await client.send_all(data)
            frames = reader.of(bytes(data))
            if self._rewrites and reader.is_broken:
                return  # Which of its bytes went through already, nobody knows.
            for frame in frames:
                asked = talk.asked(frame)
                self._show(*side, talk.answer(frame), "")
                if self._rewrites:
                    await client.send_all(frame if asked is None else await self._rewritten(frame, *asked))

    async def _rewritten(self, frame: bytes, api: Api, version: int) -> bytes:
        """Return an answer whose brokers are at the addresses where the proxy listens for them."""
        if api.name not in TELL_BROKERS:
            return frame
        body = response_body(frame[LENGTH_BYTES:], api.response_header_version(version))
        header = frame[LENGTH_BYTES : len(frame) - len(body)]
        try:
            answer = api.response.decode(bytes(body), version, exact=False)
            for broker in brokers_in(answer):
                if broker not in self._ports:
                    await self.listen((self._host, 0), broker)
            changed: bytes = header + with_addresses(answer, self._told_address).encode(version)
        except (WireError, EncodeError):
            return frame
        return len(changed).to_bytes(LENGTH_BYTES, "big") + changed

    def _told_address(self, broker: Address) -> Address:
        return self._host, self._ports[broker]


class _Frames:
    """The frames of one direction; once they cannot be read, there are none."""

    def __init__(self, show: Show, side: Side) -> None:
        self._show = show
        self._side = side
        self._reader = FrameReader(FRAME_BYTES_MAX)
        self.is_broken = False

    def of(self, data: bytes) -> list[bytes]:
        """Return the frames that these bytes complete, each with its length."""
        if self.is_broken:
            return []
        try:
            frames = self._reader.receive(data)
        except WireError as error:
            self.is_broken = True
            self._show(*self._side, None, f"{error}; what follows is not shown")
            return []
        return [len(each).to_bytes(LENGTH_BYTES, "big") + bytes(each) for each in frames]


def brokers_in(answer: Message) -> set[Address]:
    """Return the addresses of brokers that an answer tells."""
    found: set[Address] = set()

    def note(address: Address) -> Address:
        found.add(address)
        return address

    with_addresses(answer, note)
    return found


def with_addresses(value: Any, changed: Callable[[Address], Address]) -> Any:
    """Return the message with each pair of `host` and `port` changed; where there is none it is as before."""
    if isinstance(value, tuple):
        return tuple(with_addresses(each, changed) for each in value)
    if not isinstance(value, Message):
        return value
    names = [each.name for each in type(value).declaration().fields]
    fields = {name: with_addresses(getattr(value, name), changed) for name in names}
    if fields.get("host") and fields.get("port", -1) > 0:
        fields["host"], fields["port"] = changed((fields["host"], fields["port"]))
    return msgspec.structs.replace(value, **fields)  # type: ignore[type-var]  # msgspec's, but for checkers
