"""How a connection comes about: a round trip to the listener, or an error."""

import errno
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kohort.testing.simulation.ends import Address, End, Host
from kohort.testing.simulation.kernel import SECOND, Handle, Process

if TYPE_CHECKING:
    from kohort.testing.simulation.network import Network

CONNECT_NS_MAX = 127 * SECOND  # How long a connection attempt goes on without an answer, as Linux does.


class Attempt:
    """A connection that is being made: a round trip, or an error."""

    def __init__(  # noqa: PLR0917  # The arguments of `Network.connect`.
        self,
        network: "Network",
        process: Process | None,
        host: Host,
        address: Address,
        on_connected: Callable[[End], object],
        on_failed: Callable[[OSError], object],
    ) -> None:
        self._network = network
        self._process = process
        self._host = host
        self._address = address
        self._on_connected = on_connected
        self._on_failed = on_failed
        self._is_over = False
        self._end: End | None = None
        resolved = network.resolve(address[0], host)
        target = None if resolved is None else network.by_address[resolved]
        self._timeout: Handle = network.kernel.call_after(CONNECT_NS_MAX, self._time_out)
        if target is None:
            self._fail(OSError(errno.EHOSTUNREACH, "No route to host"))
        else:
            self._travel(host, target, partial(self._knock, target))

    def _travel(self, source: Host, target: Host, arrive: Callable[[], None]) -> None:
        network = self._network
        link = network.link(source, target)
        if link.is_cut:
            link.held.append(partial(self._travel, source, target, arrive))
            return
        latency_ns = network.latency_between(source, target, link, 0)
        network.kernel.call_after(latency_ns, partial(network.arrive, link, target, arrive))

    def _knock(self, target: Host) -> None:
        if self._is_over or (self._process is not None and not self._process.alive):
            return
        listener = target.listeners.get(self._address[1])
        if listener is None:
            error = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
            self._travel(target, self._host, partial(self._fail, error))
            return
        local = (self._host.address, self._host.free_port())
        remote = (target.address, self._address[1])
        mine = End(self._network, self._host, local, remote, self._process)
        theirs = End(self._network, target, remote, local, listener.process)
        mine.peer, theirs.peer = theirs, mine
        self._end = mine
        listener.process.post(partial(listener.on_connection, theirs))
        self._travel(target, self._host, self._connected)

    def _connected(self) -> None:
        if self._finish() and self._end is not None:
            self._call(partial(self._on_connected, self._end))

    def _fail(self, error: OSError) -> None:
        if self._finish():
            self._call(partial(self._on_failed, error))

    def _time_out(self) -> None:
        self._fail(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def _finish(self) -> bool:
        is_first, self._is_over = not self._is_over, True
        self._timeout.cancel()
        return is_first

    def _call(self, action: Callable[[], object]) -> None:
        if self._process is None:
            action()
        else:
            self._process.post(action)

    def give_up(self) -> None:
        """Let the attempt end without an answer."""
        if self._finish() and self._end is not None:
            self._end.abort()
