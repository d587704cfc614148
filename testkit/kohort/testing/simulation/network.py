"""A virtual network: hosts with names and addresses, and byte streams between them that behave as TCP does.

    network = Network(kernel)
    shop, broker = network.host("shop"), network.host("broker")
    listener = network.listen(process, broker, 9092, on_connection)
    network.connect(process, shop, "broker", 9092, on_connected, on_failed)

Bytes of one direction arrive in order, after a latency from the seed, in pieces as the sender made them or
smaller ones. A link that is cut holds what is sent until it is mended, as TCP sends it again; a connection
that is cut for too long is reset. A process that dies closes its connections, a host that loses power does
not: its peers are told when they send something to it after it is back.
"""

import errno
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from kohort.testing.simulation.ends import Address, End, Host, Listener
from kohort.testing.simulation.kernel import MILLISECOND, SECOND, Handle, Kernel, Process

LATENCY_NS_MIN, LATENCY_NS_MAX = 50_000, 2 * MILLISECOND
CONNECT_NS_MAX = 127 * SECOND  # How long a connection attempt goes on without an answer, as Linux does.
LOOPBACK_NS = 10_000
SLOW_ONE_IN = 200  # One piece in 200 is late,
SLOW_NS_MAX = 400 * MILLISECOND  # by up to this: it was lost, and sent again.
SPLIT_ONE_IN = 20  # One piece in 20 arrives in two.
RESET_AFTER_CUT_NS = 900 * SECOND  # After so long without an acknowledgement a connection is given up.


class Link:
    """One direction between two hosts."""

    def __init__(self) -> None:
        self.is_cut = False
        self.is_mending = False
        self.cut_at_ns = 0
        self.delay_ns = 0  # Added to each latency.
        self.bytes_per_second = 0  # 0 is without limit.
        self.cut_by: dict[object, None] = {}
        """The causes of the cut. It lasts until all of them are gone."""
        self.held: list[Callable[[], None]] = []
        """What was sent while it was cut."""


class Network:
    """Hosts, and the bytes in flight between them."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.random = kernel.random
        self.latency_ns = (LATENCY_NS_MIN, LATENCY_NS_MAX)
        self.hosts: dict[str, Host] = {}
        self.by_address: dict[str, Host] = {}
        self._links: dict[tuple[Host, Host], Link] = {}

    # -- hosts --------------------------------------------------------------------------------------------

    def host(self, name: str) -> Host:
        """Return the host of this name, a new one if there is none."""
        host = self.hosts.get(name)
        if host is None:
            number = len(self.hosts) + 1
            host = Host(name, f"10.0.{number // 250}.{number % 250 + 1}")
            self.hosts[name] = self.by_address[host.address] = host
        return host

    def resolve(self, name: str, asking: Host) -> str | None:
        """Return the address of a name or address, None if no host has it."""
        if name in ("localhost", "127.0.0.1", "0.0.0.0", "::1", "::", ""):  # Of its own host.
            return asking.address
        if name in self.by_address:
            return name
        host = self.hosts.get(name.removesuffix("."))
        return None if host is None else host.address

    def address_info(self, name: str | bytes | None, port: object, asking: Host) -> list[tuple[Any, ...]]:
        """Return what `socket.getaddrinfo` returns, for a process on the host `asking`.

        Raises: socket.gaierror.
        """
        text = name.decode() if isinstance(name, bytes) else name or ""
        address = self.resolve(text, asking)
        if address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(str(port or 0))))]

    def name_of(self, address: str) -> str:
        """Return the name of the host with this address, the address itself if there is none."""
        host = self.by_address.get(address)
        return address if host is None else host.name

    # -- connections --------------------------------------------------------------------------------------

    def listen(
        self, process: Process, host: Host, port: int, on_connection: Callable[[End], object]
    ) -> Listener:
        """Accept connections; port 0 is any free one. Raises: OSError if the port is taken."""
        port = port or host.free_port()
        if port in host.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        host.listeners[port] = listener = Listener(process, host, port, on_connection)
        return listener

    def connect(
        self,
        process: Process | None,
        host: Host,
        address: Address,
        on_connected: Callable[[End], object],
        on_failed: Callable[[OSError], object],
    ) -> Callable[[], None]:
        """Connect from `host`; one of the two is called as code of `process`.

        Return what gives the attempt up.
        """
        return _Attempt(self, process, host, address, on_connected, on_failed).give_up

    # -- what is on its way -------------------------------------------------------------------------------

    def link(self, source: Host, target: Host) -> Link:
        """Return one direction between two hosts."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
        return link

    def send(self, sender: End, piece: bytes) -> None:
        """Let bytes arrive at the peer, some of them in two pieces."""
        self.kernel.note(f"{sender.name} sends", piece)
        if len(piece) > 1 and self.random.randrange(SPLIT_ONE_IN) == 0:
            at = self.random.randrange(1, len(piece))
            self.deliver(sender, sender.peer, partial(sender.peer.take, piece[:at]), at)
            piece = piece[at:]
        self.deliver(sender, sender.peer, partial(sender.peer.take, piece), len(piece))

    def deliver(self, sender: End, receiver: End, arrive: Callable[[], None], size: int = 0) -> None:
        """Call `arrive` after the link's latency, in the order in which the connection sends."""
        if sender.host.is_silent:
            return
        link = self.link(sender.host, receiver.host)
        if link.is_cut:
            self._hold(link, sender, partial(self.deliver, sender, receiver, arrive, size))
            return
        time_ns = self.kernel.time_ns + self.latency_between(sender.host, receiver.host, link, size)
        sender.arrives_ns = time_ns = max(time_ns, sender.arrives_ns)
        self.kernel.note(f"{sender.name} is heard at {time_ns}")
        self.kernel.call_at(time_ns, partial(self.arrive, link, receiver.host, arrive, sender))

    def arrive(self, link: Link, target: Host, arrive: Callable[[], None], sender: End | None = None) -> None:
        """Call `arrive`, or later if the link is cut or the host has no power."""
        if link.is_cut:
            self._hold(link, sender, partial(self.arrive, link, target, arrive, sender))
        elif target.is_down:
            target.held.append(partial(self.arrive, link, target, arrive, sender))
        else:
            arrive()

    def _hold(self, link: Link, sender: End | None, again: Callable[[], None]) -> None:
        """Have the sender send again once the link is mended, if its host has had power all the time."""
        power_failures = 0 if sender is None else sender.host.power_failures

        def send_again() -> None:
            if sender is None or sender.host.power_failures == power_failures:
                again()

        link.held.append(send_again)

    def latency_between(self, source: Host, target: Host, link: Link, size: int) -> int:
        """Return how long `size` bytes take over the link this time."""
        if source is target:
            return LOOPBACK_NS
        latency_ns = self.random.randrange(*self.latency_ns) + link.delay_ns
        if self.random.randrange(SLOW_ONE_IN) == 0:
            latency_ns += self.random.randrange(SLOW_NS_MAX)
        if link.bytes_per_second:
            latency_ns += size * SECOND // link.bytes_per_second
        return latency_ns

    # -- faults -------------------------------------------------------------------------------------------

    def cut(self, source: Host, target: Host, by: object = None) -> None:
        """Let nothing pass from `source` to `target`; TCP gives up after a quarter of an hour.

        Who mends it names the same cause: a link with several causes is cut until all are gone.
        """
        link = self.link(source, target)
        link.cut_by[by] = None
        link.is_mending = False
        if not link.is_cut:
            link.is_cut, link.cut_at_ns = True, self.kernel.time_ns
            self.kernel.call_after(RESET_AFTER_CUT_NS, partial(self._give_up, source, target, link.cut_at_ns))

    def _give_up(self, source: Host, target: Host, cut_at_ns: int) -> None:
        link = self.link(source, target)
        if link.is_cut and link.cut_at_ns == cut_at_ns:
            for end in tuple(source.ends):
                if end.peer.host is target:
                    end.fail(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def mend(self, source: Host, target: Host, by: object = None) -> None:
        """Let bytes pass again, a while later: TCP sends again after intervals that double."""
        link = self.link(source, target)
        link.cut_by.pop(by, None)
        if link.is_cut and not link.is_mending and not link.cut_by:
            link.is_mending = True
            cut_ns = self.kernel.time_ns - link.cut_at_ns
            delay_ns = self.random.randrange(1 + min(cut_ns, 60 * SECOND))
            self.kernel.call_after(delay_ns, partial(self._mended, link, link.cut_at_ns))

    def _mended(self, link: Link, cut_at_ns: int) -> None:
        if link.is_mending and link.cut_at_ns == cut_at_ns:
            link.is_cut = link.is_mending = False
            held, link.held = link.held, []
            for each in held:
                each()

    def cut_off(self, host: Host) -> None:
        """Cut every link of the host, both ways."""
        for other in self.hosts.values():
            if other is not host:
                self.cut(host, other, by=host)
                self.cut(other, host, by=host)

    def reconnect(self, host: Host) -> None:
        """Mend what `cut_off` has cut."""
        for other in self.hosts.values():
            self.mend(host, other, by=host)
            self.mend(other, host, by=host)

    def mend_all(self) -> None:
        """Mend every link, and let none be slow."""
        for (source, target), link in tuple(self._links.items()):
            link.cut_by.clear()
            self.mend(source, target)
            link.delay_ns = link.bytes_per_second = 0

    def lose_power(self, host: Host) -> None:
        """Let every connection and listener of the host be gone without a word.

        The caller kills its processes.
        """
        host.is_down = True
        host.power_failures += 1
        for end in tuple(host.ends):
            end.vanish()
        host.listeners.clear()

    def power_on(self, host: Host) -> None:
        """Let the host be reached again: it knows no connection, so it answers with resets."""
        host.is_down = False
        held, host.held = host.held, []
        for each in held:
            each()


class _Attempt:
    """A connection that is being made: a round trip, or an error."""

    def __init__(  # noqa: PLR0917  # The arguments of `Network.connect`.
        self,
        network: Network,
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
            if self._end is not None:
                self._end.abort()
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
        """Let the attempt end without an answer, or drop the connection."""
        self._finish()
        if self._end is not None:
            self._end.abort()
