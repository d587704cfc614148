"""Hosts of the virtual network, and the two ends of each connection."""

import errno
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kohort.testing.simulation.kernel import Process

WINDOW_BYTES = 256 * 1024  # What one direction holds at most: unread at the receiver, and on its way.
EPHEMERAL_PORT_MIN = 32_768

Address = tuple[str, int]
"""An IP address and a port."""


def _nothing() -> None:
    """Nobody waits for a change of an end."""


class Carrier(Protocol):
    """The part of the network that an end uses."""

    def send(self, sender: "End", piece: bytes) -> None:
        """Let bytes arrive at the peer."""
        ...

    def deliver(self, sender: "End", receiver: "End", arrive: Callable[[], None]) -> None:
        """Call `arrive` when it has come over the link, behind all that was sent before."""
        ...


class Host:
    """A machine: a name, an address, and its listeners."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.listeners: dict[int, Listener] = {}
        self.ends: dict[End, None] = {}
        """Its ends of open connections."""
        self.is_down = False
        """Whether it has no power: what arrives is lost, and sent again until it is back."""
        self.power_failures = 0
        """How often it has lost its power. What it had sent before is not sent again."""
        self.held: list[Callable[[], None]] = []
        """What arrives again once it has power."""
        self.is_silent = False
        """Whether nothing that it sends arrives: its process is dead already, and has not stopped yet."""
        self._port = EPHEMERAL_PORT_MIN

    def free_port(self) -> int:
        """Return a free port."""
        while True:
            self._port += 1
            if self._port not in self.listeners:
                return self._port


class Listener:
    """A port that accepts connections."""

    def __init__(
        self, process: Process, host: Host, port: int, on_connection: Callable[["End"], object]
    ) -> None:
        self.process = process
        self.host = host
        self.port = port
        self.on_connection = on_connection
        """Takes the accepting end of each new connection, called as code of the process."""
        process.on_death[self.close] = None

    def close(self) -> None:
        """Accept no more."""
        if self.host.listeners.get(self.port) is self:
            del self.host.listeners[self.port]
        self.process.on_death.pop(self.close, None)


class End:
    """One end of a connection. Its owner sends and receives; `on_change` tells that more may be possible."""

    def __init__(
        self, network: Carrier, host: Host, local: Address, remote: Address, process: Process | None
    ) -> None:
        self.network = network
        self.host = host
        self.local = local
        self.remote = remote
        self.process = process
        self.peer: End
        self.on_change: Callable[[], object] = _nothing
        """Called as code of the process, when bytes, the end or an error came, or there is room to send."""
        self.error: OSError | None = None
        self.is_closed = False
        self.unread_bytes = 0
        """How many bytes have arrived and were not received."""
        self.on_its_way_bytes = 0
        """How many bytes were sent and have not arrived."""
        self.arrives_ns = 0
        """When the last piece that was sent arrives."""
        self.is_full = False
        """Whether there was no more room after a `send`, so that the owner may wait for some."""
        self._received: deque[bytes] = deque()
        self._has_end = False  # The peer sends no more.
        self._has_sent_end = False
        self._is_told = False
        host.ends[self] = None
        if process is not None:
            process.on_death[self.close] = None

    @property
    def name(self) -> str:
        """From where to where it sends."""
        return f"{self.host.name}:{self.local[1]} > {self.peer.host.name}:{self.remote[1]}"

    # -- the owner's side ---------------------------------------------------------------------------------

    @property
    def is_readable(self) -> bool:
        """Whether `receive` returns or raises at once."""
        return bool(self._received) or self._has_end or self.error is not None

    @property
    def is_writable(self) -> bool:
        """Whether `send` takes some bytes or raises at once."""
        return self.error is not None or self._room > 0

    @property
    def _room(self) -> int:
        return WINDOW_BYTES - self.on_its_way_bytes - self.peer.unread_bytes

    def receive(self, bytes_max: int) -> bytes | None:
        """Return what has arrived, b"" at the end, None if there is nothing yet. Raises: OSError."""
        if self._received:
            return self._take(bytes_max)
        if self.error is not None:
            raise self.error
        return b"" if self._has_end else None

    def _take(self, bytes_max: int) -> bytes:
        piece = self._received.popleft()
        while len(piece) < bytes_max and self._received and len(piece) + len(self._received[0]) <= bytes_max:
            piece += self._received.popleft()
        if len(piece) > bytes_max:
            self._received.appendleft(piece[bytes_max:])
            piece = piece[:bytes_max]
        self.unread_bytes -= len(piece)
        peer = self.peer
        if peer.is_full:
            self.network.deliver(self, peer, peer.take_room)
        return piece

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Take some of the bytes and return how many; 0 if there is no room. Raises: OSError."""
        if self.error is not None:
            raise self.error
        if self.is_closed or self._has_sent_end:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        room = self._room
        if room <= 0:
            self.is_full = True
            return 0
        piece = bytes(data[:room])
        if len(piece) == room:
            self.is_full = True
        self.on_its_way_bytes += len(piece)
        self.network.send(self, piece)
        return len(piece)

    def end(self) -> None:
        """Send no more. The peer sees the end after the bytes sent before."""
        if not self._has_sent_end and self.error is None and not self._is_dead:
            self._has_sent_end = True
            self.network.deliver(self, self.peer, self.peer.take_end)

    def close(self) -> None:
        """Close both directions. The peer sees the end, or a reset if something was left unread."""
        if self.is_closed or self._is_dead:
            return
        if self.unread_bytes:
            self.abort()
            return
        self.end()
        self._leave()

    def abort(self) -> None:
        """Close at once: the peer sees a reset."""
        if not self.is_closed and not self._is_dead:
            self._leave()
            self.network.deliver(self, self.peer, self.peer.take_reset)

    @property
    def _is_dead(self) -> bool:
        """Whether the process is dead: what it does happens no more. Its system closes this end then."""
        return self.host.is_silent and self.process is not None

    def _leave(self) -> None:
        self.is_closed = True
        self.on_change = _nothing
        self.host.ends.pop(self, None)
        if self.process is not None:
            self.process.on_death.pop(self.close, None)
        self._received.clear()
        self.unread_bytes = 0

    # -- the network's side -------------------------------------------------------------------------------

    def tell(self) -> None:
        """Tell the owner that something has changed, once for changes at the same time."""
        if self.process is None:
            self.on_change()
        elif not self._is_told:
            self._is_told = True
            self.process.post(self._tell_now)

    def _tell_now(self) -> None:
        self._is_told = False
        self.on_change()

    def take(self, piece: bytes) -> None:
        """Take bytes that have arrived."""
        sender = self.peer
        sender.on_its_way_bytes -= len(piece)
        if self.is_closed:
            if not sender.is_closed:  # A closed socket answers bytes with a reset.
                self.network.deliver(self, sender, sender.take_reset)
            return
        if self.error is None:
            self._received.append(piece)
            self.unread_bytes += len(piece)
            self.tell()

    def take_room(self) -> None:
        """Take the peer's word that it has received something, so that there is room to send."""
        if self._room > 0:
            self.is_full = False
            self.tell()

    def take_end(self) -> None:
        """Take the end of what the peer sends."""
        if not self.is_closed:
            self._has_end = True
            self.tell()

    def take_reset(self) -> None:
        """Take a reset: bytes that were not read are lost."""
        self.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def fail(self, error: OSError) -> None:
        """Let the owner have this error from now on."""
        if self.is_closed or self.error is not None:
            return
        self.error = error
        self._received.clear()
        self.unread_bytes = 0
        self.tell()

    def vanish(self) -> None:
        """Be gone without telling the peer, as when a host loses power.

        A peer that waits for room asks for it again and again, so it hears that this end is gone.
        """
        self._leave()
        if self.peer.is_full:
            self.network.deliver(self.peer, self, partial(self.take, b""))
