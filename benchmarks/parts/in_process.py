"""A whole broker in this process, and clients that speak to it through memory instead of sockets.

    with_world(play)                    # has a broker meanwhile; `play` is a coroutine function
    line = world.line()                 # a connection: the broker has a `Connection` with a `Peer` for it
    await world.play([script, ...])     # every script to its end; what the rounds cost is metered

A request takes the broker's usual path: reactor, connection, handlers, shard, group core, log, flusher. Only
the outermost layer differs: the poller says when a line has data, and a line hands over bytes. Its
clock stands still except for a step every few rounds, and nothing is synced (`UnsyncedFileSystem`), so that
the same requests take the same path in each run, under any load of the machine.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol, TextIO, TypeVar

import trio

from kohort.broker import ephemeral
from kohort.broker.broker import Broker, running
from kohort.broker.config import load_config
from kohort.broker.logs import configure_logs
from kohort.broker.runtime.clock import ManualClock
from kohort.broker.transport.addresses import Address, BrokerAddresses
from kohort.broker.transport.connection import Connection, Driver
from kohort.broker.transport.file_range import FileRange
from kohort.broker.transport.poller import POLLERS, READ, VARIABLE, EpollPoller, Events
from kohort.protocol.headers import RequestHeader
from kohort.protocol.registry import BY_NAME
from kohort.protocol.schema import Message

SETTINGS = (("group.initial.rebalance.delay.ms", "0"), ("group.consumer.assignment.interval.ms", "0"))
VERSIONS = {
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "Fetch": 12,
    "Produce": 11,
    "Metadata": 12,
    "TxnOffsetCommit": 5,
}
"""The versions that use topic names; all other APIs use the newest version."""
LISTENER = 9  # A number that no listener of the broker has.
ROUNDS_PER_MS = 10  # How fast the clock goes.
PATIENCE_SECONDS = 120.0
Answer = TypeVar("Answer", bound=Message)


class Step(NamedTuple):
    """What a script has sent, and the lines whose answers it waits for."""

    sends: Sequence[tuple[Line, bytes]]
    awaits: Sequence[Line]


Script = Generator[Step, list[bytes], None]
"""Yields steps, and is sent the answers to each, in the order of `awaits`."""


class Meter(Protocol):
    """Measures the rounds of the broker. No work of the clients lies between `resume` and `pause`."""

    def resume(self) -> None:
        """Measure from here."""
        ...

    def pause(self) -> None:
        """Stop the measurement."""
        ...


class NoMeter:
    """Measures nothing."""

    def resume(self) -> None:
        """Do nothing."""

    def pause(self) -> None:
        """Do nothing."""


class Line:
    """One connection, as its transport: the requests of its client, and the answers."""

    def __init__(self) -> None:
        self.file_descriptor = -1
        self.outgoing: deque[bytes] = deque()
        self.incoming: list[bytes] = []
        self._rest = b""
        self._answers: deque[bytes] = deque()

    def receive(self, count: int) -> bytes:
        """Return the bytes that the client has sent, at once."""
        if not self.outgoing:
            raise BlockingIOError
        data = self.outgoing.popleft()
        if len(data) > count:
            self.outgoing.appendleft(data[count:])
            return data[:count]
        return data

    def receive_into(self, view: memoryview) -> int:
        """Fill `view` with the bytes that the client has sent."""
        data = self.receive(len(view))
        view[: len(data)] = data
        return len(data)

    def send(self, data: bytes | memoryview) -> int:
        """Take an answer's bytes, all of them."""
        self.incoming.append(bytes(data))
        return len(data)

    def send_range(self, piece: FileRange) -> int:
        """Take a stretch of a file."""
        data = os.pread(piece.file_descriptor, piece.stretch_bytes, piece.position)
        self.incoming.append(data)
        return len(data)

    def close(self) -> None:
        """Do nothing: there is no resource."""

    def answer(self) -> bytes | None:
        """Return the next answer with its header, None if it has not arrived."""
        if self.incoming:
            data = self._rest + b"".join(self.incoming)
            self.incoming.clear()
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                end = 4 + int.from_bytes(data[:4], "big")
                self._answers.append(data[4:end])
                data = data[end:]
            self._rest = data
        return self._answers.popleft() if self._answers else None


class Talk:
    """A script that is being played."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._got: list[bytes] = []
        self._awaits: list[Line] = []
        self.is_over = False

    def go_on(self) -> list[Line]:
        """Take the answers and send the next requests, as far as possible.

        Return the lines that have sent.
        """
        spoke: list[Line] = []
        while not self.is_over:
            while self._awaits and (answer := self._awaits[0].answer()) is not None:
                self._got.append(answer)
                del self._awaits[0]
            if self._awaits:
                break
            got, self._got = self._got, []
            try:
                step = self._script.send(got) if self._has_begun else next(self._script)
            except StopIteration:
                self.is_over = True
                break
            self._has_begun = True
            for line, frame in step.sends:
                line.outgoing.append(frame)
                spoke.append(line)
            self._awaits = list(step.awaits)
        return spoke

    _has_begun = False


class MemoryPoller(EpollPoller):
    """epoll for the other events of the loop, and the lines whose clients have sent data."""

    def __init__(self) -> None:
        super().__init__()
        self._real_poll, self.poll = self.poll, self._poll
        self._talks: list[Talk] = []
        self._over: trio.Event | None = None
        self._meter: Meter = NoMeter()
        self._rounds = 0
        self.clock: ManualClock | None = None

    def begin(self, scripts: Iterable[Script], meter: Meter) -> trio.Event:
        """Play the scripts from the next poll on; the event is set when all are complete."""
        self._talks, self._meter, self._over = [Talk(each) for each in scripts], meter, trio.Event()
        return self._over

    def _poll(self, seconds: float, events_max: int) -> Events:
        if self._over is None:
            return self._real_poll(seconds, events_max)
        self._meter.pause()
        spoke: dict[int, None] = {}
        for talk in self._talks:
            for line in talk.go_on():
                spoke[line.file_descriptor] = None
        self._talks = [each for each in self._talks if not each.is_over]
        events = [*self._real_poll(0.0 if spoke else seconds, events_max), *((each, READ) for each in spoke)]
        if not self._talks:
            self._over.set()
            self._over = None
            return events
        self._rounds += 1
        if not self._rounds % ROUNDS_PER_MS and self.clock is not None:
            self.clock.advance(1)
        self._meter.resume()
        return events


class World:
    """A broker that serves, and the lines to it."""

    def __init__(self, broker: Broker, poller: MemoryPoller, clock: ManualClock) -> None:
        self.broker = broker
        self.clock = clock
        self._poller = poller
        self._opening: deque[Line] = deque()
        self._clients: list[socket.socket] = []
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self._address = listener.getsockname()
        broker.reactor.listen(listener, LISTENER, self._opened)

    def _opened(
        self, driver: Driver, sock: socket.socket, address: tuple[str, int], bytes_max: int, number: int
    ) -> Connection:
        line = self._opening.popleft()
        self._clients.append(sock)  # It only lends its descriptor.
        line.file_descriptor = sock.fileno()
        return Connection(driver, line, address, bytes_max, number)

    async def lines(self, count: int) -> list[Line]:
        """Return so many new connections."""
        made = [Line() for _ in range(count)]
        for each in made:
            self._opening.append(each)
            client = socket.create_connection(self._address)
            self._clients.append(client)
            while each.file_descriptor < 0:
                await trio.sleep(0.001)
        return made

    async def play(self, scripts: Iterable[Script], meter: Meter | None = None) -> None:
        """Play all scripts at once, each to its end. Raises: trio.TooSlowError."""
        over = self._poller.begin(scripts, meter or NoMeter())
        self.broker.mailbox.wake()
        with trio.fail_after(PATIENCE_SECONDS):
            await over.wait()

    def pass_time(self, milliseconds: int) -> None:
        """Advance the clock at once."""
        self.clock.advance(milliseconds)
        self.broker.mailbox.wake()

    def close(self) -> None:
        """Let the descriptors go; the broker has ended."""
        for each in self._clients:
            each.close()


def with_world(
    play: Callable[[World], Awaitable[None]], settings: Sequence[tuple[str, str]] = SETTINGS
) -> None:
    """Run `play` with a world whose data folder is empty. Log lines of the broker are formatted, and dropped.

    To be called in a separate process: poller and loggers belong to the whole process.
    """
    pollers: list[MemoryPoller] = []

    def make_poller() -> MemoryPoller:
        pollers.append(MemoryPoller())
        return pollers[-1]

    async def main() -> None:
        clock = ManualClock()
        with ephemeral.throw_away_folder() as folder:
            places = BrokerAddresses(Address("127.0.0.1", 0), folder / "data")
            config = load_config(None, settings)
            world: World | None = None
            try:
                async with running(config, places, clock, ephemeral.file_system()) as broker:
                    (poller,) = pollers
                    poller.clock = clock
                    world = World(broker, poller, clock)
                    await play(world)
            finally:
                if world is not None:
                    world.close()

    POLLERS["memory"] = ("epoll", make_poller)
    os.environ[VARIABLE] = "memory"
    sys.stderr, stderr = nowhere(), sys.stderr
    configure_logs("console")  # Like the log of `kohort serve`: a line for each event, but written nowhere.
    sys.stderr = stderr
    trio.run(main)


@cache
def nowhere() -> TextIO:
    """Return a file that keeps nothing, for loggers that live as long as the process."""
    return open(os.devnull, "w", encoding="utf-8")


# -- requests and answers -------------------------------------------------------------------------------


def frame(message: Message) -> bytes:
    """Return an encoded request."""
    api, version = _spoken(type(message).__name__.removesuffix("Request"))
    header = RequestHeader(
        request_api_key=api.api_key, request_api_version=version, correlation_id=1, client_id="budget"
    )
    data = header.encode(api.request_header_version(version)) + message.encode(version)
    return struct.pack(">i", len(data)) + data


def decoded(answer: bytes, kind: type[Answer]) -> Answer:
    """Return the message of an answer."""
    api, version = _spoken(kind.__name__.removesuffix("Response"))
    return kind.decode(answer[5 if api.response_header_version(version) else 4 :], version)


def _spoken(name: str) -> tuple[Any, int]:
    api = BY_NAME[name]
    return api, VERSIONS.get(name, api.versions.highest)
