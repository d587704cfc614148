"""trio's sockets on the virtual network: what `trio.open_tcp_stream` and trio's servers get in a process.

    process = TrioProcess(kernel, "client", main)
    put_on_network(process, network, network.host("client"))

trio has two public hooks for it, one for sockets and one for names. Each counts for one run.
"""

import errno
import socket
from typing import Any

import outcome
import trio
from trio.socket import SocketType

from kohort.testing.simulation.ends import End, Host
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.sockets import READ, WRITE, Sockets, VirtualSocket
from kohort.testing.simulation.trio_process import TrioProcess


def put_on_network(process: TrioProcess, network: Network, host: Host) -> Sockets:
    """Give a process, before it begins, the sockets and names of a host. Return its sockets."""
    sockets = Sockets(network, host, process)
    process.setup = TrioSockets(sockets).use
    return sockets


class TrioSockets(trio.abc.SocketFactory, trio.abc.HostnameResolver):
    """Makes sockets, and resolves names, for the run of one process."""

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets

    def use(self) -> None:
        """Let the run that is current use these."""
        trio.socket.set_custom_socket_factory(self)
        trio.socket.set_custom_hostname_resolver(self)

    def socket(
        self, family: int = socket.AF_INET, type: int = socket.SOCK_STREAM, proto: int = 0
    ) -> SocketType:  # As trio has it.
        """Return a new socket. Raises: OSError for what is no TCP over IPv4."""
        if family != socket.AF_INET or type & socket.SOCK_STREAM == 0:
            raise OSError(errno.EAFNOSUPPORT, "only TCP over IPv4 is simulated")
        return TrioSocket(self._sockets, self._sockets.socket())

    async def getaddrinfo(  # noqa: PLR0917  # As the standard library has it.
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # As trio has it.
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """Return the address of a name of the network. Raises: socket.gaierror."""
        await trio.lowlevel.checkpoint()
        return self._sockets.network.address_info(host, port, self._sockets.host)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        """Return the numbers as text."""
        await trio.lowlevel.checkpoint()
        return str(sockaddr[0]), str(sockaddr[1])


class TrioSocket(SocketType):
    """A TCP socket of a trio program."""

    def __init__(self, sockets: Sockets, sock: VirtualSocket) -> None:
        self._sockets = sockets
        self._sock = sock  # The name that trio has, too: anyio asks it for options and addresses.
        self._tasks: dict[trio.lowlevel.Task, int] = {}  # Who waits, and for which event.
        self._has_shut_down = False
        sock.on_change = self._changed

    # -- without waiting ----------------------------------------------------------------------------------

    @property
    def family(self) -> socket.AddressFamily:
        """IPv4."""
        return socket.AF_INET

    @property
    def type(self) -> socket.SocketKind:
        """A stream."""
        return socket.SOCK_STREAM

    @property
    def proto(self) -> int:
        """TCP."""
        return socket.IPPROTO_TCP

    @property
    def did_shutdown_SHUT_WR(self) -> bool:  # As trio has it.
        """Whether it sends no more."""
        return self._has_shut_down

    def fileno(self) -> int:
        """Return the descriptor, -1 once it is closed."""
        return self._sock.fileno()

    def getsockname(self) -> Any:
        """Return the own address."""
        return self._sock.getsockname()

    def getpeername(self) -> Any:
        """Return the address of the other side. Raises: OSError."""
        return self._sock.getpeername()

    def setsockopt(self, level: int, optname: int, value: Any, optlen: int | None = None) -> None:
        """Do nothing: no option changes what is simulated."""

    def getsockopt(self, level: int, optname: int, buflen: int | None = None) -> Any:
        """Return 0."""
        return 0

    def listen(self, backlog: int = 0) -> None:
        """Let clients connect. Raises: OSError."""
        self._sock.listen(backlog)

    def is_readable(self) -> bool:
        """Return whether `recv` would return at once."""
        return self._sock.events(READ) != 0

    def shutdown(self, flag: int) -> None:
        """Send no more, unless only receiving is ended. Raises: OSError."""
        self._sock.shutdown(flag)
        self._has_shut_down = self._has_shut_down or flag != socket.SHUT_RD

    def close(self) -> None:
        """Close it: tasks that wait for it get a ClosedResourceError."""
        self._sock.close()
        self._changed()

    def __enter__(self) -> "TrioSocket":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # -- with waiting -------------------------------------------------------------------------------------

    async def bind(self, address: Any) -> None:
        """Take the port, 0 for any free one. Raises: OSError."""
        await trio.lowlevel.checkpoint()
        self._sock.bind(address)

    async def connect(self, address: Any) -> None:
        """Connect. Raises: OSError."""
        task = trio.lowlevel.current_task()
        sockets = self._sockets

        is_over = False

        def connected(end: End) -> None:
            if not is_over:
                self._sock.attach(end)
                trio.lowlevel.reschedule(task)

        def failed(error: OSError) -> None:
            if not is_over:
                trio.lowlevel.reschedule(task, outcome.Error(error))

        give_up = sockets.network.connect(sockets.process, sockets.host, address, connected, failed)

        def abort(_raise_cancel: Any) -> trio.lowlevel.Abort:
            nonlocal is_over
            is_over = True
            give_up()
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def accept(self) -> tuple[SocketType, Any]:
        """Return the next connection and the address of its client."""
        await self._until(READ)
        sock, address = self._sock.accept()
        return TrioSocket(self._sockets, sock), address

    async def recv(self, buflen: int, flags: int = 0) -> bytes:
        """Return what arrives, b"" at the end. Raises: OSError."""
        await self._until(READ)
        return self._sock.recv(buflen)

    async def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Write what arrives into the buffer. Return its size. Raises: OSError."""
        await self._until(READ)
        return self._sock.recv_into(buffer, nbytes)

    async def send(self, data: Any, flags: int = 0) -> int:
        """Send some of the bytes. Return how many. Raises: OSError."""
        await self._until(WRITE)
        return self._sock.send(data)

    async def wait_writable(self) -> None:
        """Return when there is room to send."""
        await self._until(WRITE)

    async def _until(self, event: int) -> None:
        """Return when the event is there. Raises: trio.ClosedResourceError, trio.Cancelled."""
        await trio.lowlevel.checkpoint()
        while True:
            if self._sock.fileno() == -1:
                raise trio.ClosedResourceError
            if self._sock.events(event):
                return
            task = trio.lowlevel.current_task()
            self._tasks[task] = event

            def abort(_raise_cancel: Any, task: Any = task) -> trio.lowlevel.Abort:
                del self._tasks[task]
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)

    def _changed(self) -> None:
        for task, event in tuple(self._tasks.items()):
            if self._sock.fileno() == -1 or self._sock.events(event):
                del self._tasks[task]
                trio.lowlevel.reschedule(task)
