"""asyncio's transports and servers on the virtual network."""

import asyncio
import socket
from asyncio import transports
from collections.abc import Callable
from typing import Any, Protocol

from kohort.testing.simulation.ends import End, Listener

RECEIVE_BYTES = 64 * 1024


class ListeningLoop(Protocol):
    """The part of the event loop that a server uses."""

    @property
    def host_address(self) -> str:
        """The address of the process's host."""
        ...

    def listen(self, port: int, on_connection: Callable[[End], object]) -> Listener:
        """Accept connections on the process's host. Raises: OSError."""
        ...


class SocketFacts:
    """What an application may ask the socket of a transport."""

    family = socket.AF_INET
    type = socket.SOCK_STREAM
    proto = socket.IPPROTO_TCP

    def __init__(self, local: tuple[str, int], remote: tuple[str, int] | None = None) -> None:
        self._local = local
        self._remote = remote

    def getsockname(self) -> tuple[str, int]:
        """Return the own address."""
        return self._local

    def getpeername(self) -> tuple[str, int] | None:
        """Return the address of the other side."""
        return self._remote

    def setsockopt(self, *_option: Any) -> None:
        """Do nothing: no option changes what is simulated."""

    def getsockopt(self, *_option: Any) -> int:
        """Return 0."""
        return 0

    def fileno(self) -> int:
        """Return no descriptor."""
        return -1


_FlowControl: Any = transports._FlowControlMixin  # It has no public name.


class SimulatedTransport(_FlowControl, asyncio.Transport):  # type: ignore[misc]
    """One end of a connection, for a protocol."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        end: End,
        protocol: asyncio.BaseProtocol,
        waiter: "asyncio.Future[None] | None" = None,
    ) -> None:
        facts = SocketFacts(end.local, end.remote)
        extra = {"socket": facts, "sockname": end.local, "peername": end.remote}
        super().__init__(extra, loop)  # type: ignore[call-arg]
        self._end = end
        self._buffer = bytearray()
        self._is_closing = False
        self._is_paused = False
        self._is_lost = False
        self._wants_end = False
        self._has_end = False
        self._protocol: Any = protocol
        loop.call_soon(protocol.connection_made, self)
        loop.call_soon(self._begin, waiter)

    def _begin(self, waiter: "asyncio.Future[None] | None") -> None:
        self._end.on_change = self._changed
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        self._changed()

    def _changed(self) -> None:
        """Something came, or there is room to send. Called as code of the process."""
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._is_lost:
            return
        try:
            self._flush()
            self._read()
        except OSError as error:
            self._lose(error)

    def _read(self) -> None:
        while not self._is_paused and not self._is_closing and not self._has_end:
            data = self._end.receive(RECEIVE_BYTES)
            if data is None:
                return
            if not data:
                self._has_end = True
                if not self._protocol.eof_received():
                    self.close()
                return
            self._give(data)

    def _give(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        while data:
            buffer: Any = self._protocol.get_buffer(len(data))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            self._protocol.buffer_updated(size)
            data = data[size:]

    def _flush(self) -> None:
        while self._buffer:
            sent = self._end.send(self._buffer)
            if not sent:
                break
            del self._buffer[:sent]
        self._maybe_resume_protocol()
        if not self._buffer:
            if self._is_closing:
                self._lose(None)
            elif self._wants_end:
                self._end.end()

    def _lose(self, error: OSError | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._buffer.clear()
        if error is None:
            self._end.close()
        else:
            self._end.abort()
        self._loop.call_soon(self._protocol.connection_lost, error)

    # -- as asyncio has it ----------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        """Send the bytes, now or when there is room."""
        if self._is_lost or self._is_closing or not data:
            return
        self._buffer += data
        try:
            self._flush()
        except OSError as error:
            self._lose(error)
            return
        self._maybe_pause_protocol()

    def write_eof(self) -> None:
        """Send no more behind what was written."""
        self._wants_end = True
        if not self._buffer and not self._is_lost:
            self._end.end()

    def can_write_eof(self) -> bool:
        """Return whether `write_eof` works."""
        return True

    def close(self) -> None:
        """Close once all is sent."""
        if not self._is_closing:
            self._is_closing = True
            if not self._buffer:
                self._lose(None)

    def abort(self) -> None:
        """Close at once."""
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._end.abort()
            self._loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        """Return whether it is closed, or closes."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Give the protocol nothing for now."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Give the protocol what comes."""
        self._is_paused = False
        self._changed()

    def is_reading(self) -> bool:
        """Return whether the protocol is given what comes."""
        return not self._is_paused and not self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Have another protocol from now on."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait for room."""
        return len(self._buffer)


class SimulatedServer(asyncio.AbstractServer):
    """A listener of a simulated process."""

    def __init__(self, loop: Any, protocol_factory: Callable[[], asyncio.BaseProtocol], port: int) -> None:
        self._loop: asyncio.AbstractEventLoop = loop
        self._listening: ListeningLoop = loop
        self._factory = protocol_factory
        self._port = port
        self._listener: Listener | None = None
        self._closed = loop.create_future()

    @property
    def sockets(self) -> tuple[SocketFacts, ...]:
        """The address, as a socket tells it."""
        return () if self._listener is None else (SocketFacts((self._listening.host_address, self._port)),)

    def _accept(self, end: End) -> None:
        SimulatedTransport(self._loop, end, self._factory())

    async def start_serving(self) -> None:
        """Accept connections. Raises: OSError."""
        if self._listener is None:
            self._listener = self._listening.listen(self._port, self._accept)
            self._port = self._listener.port

    async def serve_forever(self) -> None:
        """Accept connections until it is cancelled."""
        await self.start_serving()
        try:
            await self._closed
        finally:
            self.close()

    def is_serving(self) -> bool:
        """Return whether it accepts connections."""
        return self._listener is not None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop."""
        return self._loop

    def close(self) -> None:
        """Accept no more."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if not self._closed.done():
            self._closed.set_result(None)

    async def wait_closed(self) -> None:
        """Return once it is closed."""
        await asyncio.sleep(0)

    def close_clients(self) -> None:
        """Do nothing: connections end by their protocols."""

    def abort_clients(self) -> None:
        """Do nothing: connections end by their protocols."""

    async def __aenter__(self) -> "SimulatedServer":
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()
