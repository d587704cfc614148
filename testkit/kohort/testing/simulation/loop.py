"""An asyncio event loop on the kernel: virtual time, virtual connections, executors that run in order.

What asyncio promises is kept: what `call_soon` was given runs in that order. All else comes from the seed.
Threads, subprocesses, datagrams, pipes and TLS are refused with `LeftSimulation`.
"""

import asyncio
import heapq
import socket
import sys
import threading
from asyncio import base_events, events
from collections.abc import Callable
from functools import partial
from typing import Any

from kohort.testing.simulation.ends import End, Host, Listener
from kohort.testing.simulation.errors import LeftSimulation
from kohort.testing.simulation.kernel import MILLISECOND, SECOND, Process
from kohort.testing.simulation.network import Network
from kohort.testing.simulation.transports import SimulatedServer, SimulatedTransport

EXECUTOR_NS_MAX = 2 * MILLISECOND
LOOKUP_SECONDS = 0.0005
TIMERS_CANCELLED_MAX = 100


class _NoSelector:
    """What `BaseEventLoop` waits with. It never waits: the kernel does."""

    def select(self, _timeout: float | None) -> list[Any]:
        """Return no events."""
        return []


class _Numbered:
    """Has a hash that is the same in each run, so that sets of tasks and futures have the same order."""

    def __init__(self, number: int, *arguments: Any, **options: Any) -> None:
        self._number = number
        super().__init__(*arguments, **options)

    def __hash__(self) -> int:
        return self._number


class _NumberedTask(_Numbered, asyncio.Task[Any]):
    """A task of a simulated process."""


class _NumberedFuture(_Numbered, asyncio.Future[Any]):
    """A future of a simulated process."""


_BaseEventLoop: Any = base_events.BaseEventLoop  # Its attributes have no public names.


class SimulatedLoop(_BaseEventLoop):  # type: ignore[misc]
    """The event loop of one simulated process."""

    def __init__(self, process: Process, network: Network, host: Host) -> None:
        super().__init__()
        self._process = process
        self._network = network
        self._host = host
        self._selector = _NoSelector()
        self._clock_resolution = 1e-9
        self._connected: dict[int, End] = {}  # Of sockets that the application has made, by descriptor.
        self._executor_free_ns = 0
        self._number = 0  # Of the last task or future.
        self.signal_handlers: dict[int, Callable[[], object]] = {}

    # -- for the process ------------------------------------------------------------------------------------

    def call_within(self, action: Callable[[], object]) -> None:
        """Call `action` while this is the running loop."""
        outer, hooks = events._get_running_loop(), sys.get_asyncgen_hooks()
        self._thread_id: int | None = threading.get_ident()
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)
        events._set_running_loop(self)
        try:
            action()
        finally:
            events._set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)
            self._thread_id = None

    def run_once(self) -> None:
        """Do what is ready now, as `BaseEventLoop._run_once` does, without asking a selector."""
        if self._timer_cancelled_count > TIMERS_CANCELLED_MAX:
            self._run_once()  # It drops them.
            return
        ready, scheduled = self._ready, self._scheduled
        end = self.time() + self._clock_resolution
        while scheduled and scheduled[0]._when < end:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def next_ns(self) -> int | None:
        """Return the process's time at which something is to be done, 0 for now, None for never."""
        if self._ready:
            return 0
        while self._scheduled and self._scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            handle = self._scheduled[0]
            handle._scheduled = False
            heapq.heappop(self._scheduled)
        # One more, because a time as a float is a little before or behind the nanosecond that it means.
        return int(self._scheduled[0]._when * SECOND) + 1 if self._scheduled else None

    # -- as asyncio has it ----------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the process's clock, in seconds."""
        return self._process.elapsed_ns() / SECOND

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        self._number += 1
        return _NumberedFuture(self._number, loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Return a task of this loop."""
        if self._task_factory is not None:
            task: asyncio.Task[Any] = super().create_task(coro, **options)
            return task
        self._check_closed()
        self._number += 1
        return _NumberedTask(self._number, coro, loop=self, **options)

    def _process_events(self, _event_list: list[Any]) -> None:
        """Nothing comes by the selector."""

    def _write_to_self(self) -> None:
        """Wake nobody: there is one thread."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: object) -> Any:
        """Call the function a while later, behind all that executors were given before."""
        future = self.create_future()
        kernel = self._process.kernel
        delay_ns = kernel.random.randrange(EXECUTOR_NS_MAX)
        self._executor_free_ns = max(self._executor_free_ns, kernel.time_ns) + delay_ns

        def call() -> None:
            if future.cancelled():
                return
            with kernel.working() as work:
                try:
                    end = partial(future.set_result, func(*args))
                except BaseException as error:  # noqa: BLE001  # As an executor does.
                    end = partial(future.set_exception, error)
            self._executor_free_ns += work.slept_ns
            kernel.call_after(work.slept_ns, lambda: self._process.post(lambda: future.done() or end()))

        kernel.call_at(self._executor_free_ns, lambda: self._process.post(call))
        return future

    async def getaddrinfo(
        self,
        host: str | bytes | None,
        port: str | int | None,
        *,
        family: int = 0,
        type: int = 0,  # As asyncio has it.
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[Any, ...]]:
        """Return the address of a name of the network. Raises: socket.gaierror."""
        await asyncio.sleep(LOOKUP_SECONDS)
        return self._network.address_info(host, port, self._host)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Return the numbers as text."""
        return str(sockaddr[0]), str(sockaddr[1])

    async def _dial(self, address: tuple[str, int]) -> End:
        found: asyncio.Future[End] = self.create_future()

        def connected(end: End) -> None:
            if found.done():
                end.abort()
            else:
                found.set_result(end)

        def failed(error: OSError) -> None:
            if not found.done():
                found.set_exception(error)

        give_up = self._network.connect(self._process, self._host, address, connected, failed)
        try:
            return await found
        except asyncio.CancelledError:
            give_up()
            raise

    async def create_connection(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: socket.socket | None = None,
        **_options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect. Raises: OSError, LeftSimulation for TLS."""
        if ssl:
            raise LeftSimulation("the code wanted TLS: connect in plain text in a simulation")
        if sock is not None:
            end = self._connected.pop(sock.fileno())
            sock.close()
        else:
            found = await self.getaddrinfo(host, port)
            end = await self._dial(found[0][4])
        protocol = protocol_factory()
        waiter = self.create_future()
        transport = SimulatedTransport(self, end, protocol, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            transport.abort()
            raise
        return transport, protocol

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect a socket that the application has made; `create_connection` takes it. Raises: OSError."""
        host, port = address[:2]
        found = await self.getaddrinfo(host, port)
        self._connected[sock.fileno()] = await self._dial(found[0][4])

    async def create_server(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: int | None = None,
        *,
        ssl: Any = None,
        sock: socket.socket | None = None,
        start_serving: bool = True,
        **_options: Any,
    ) -> SimulatedServer:
        """Listen. Raises: OSError, LeftSimulation for TLS and for a socket of the application."""
        if ssl:
            raise LeftSimulation("the code wanted TLS: listen in plain text in a simulation")
        if sock is not None:
            raise LeftSimulation("the code listens on a socket of its own: give host and port instead")
        server = SimulatedServer(self, protocol_factory, port or 0)
        if start_serving:
            await server.start_serving()
        return server

    def listen(self, port: int, on_connection: Callable[[End], object]) -> Listener:
        """Accept connections on the process's host. Raises: OSError."""
        return self._network.listen(self._process, self._host, port, on_connection)

    @property
    def host_address(self) -> str:
        """The address of the process's host."""
        return self._host.address

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        """Call it when the process is asked to end."""
        self.signal_handlers[sig] = lambda: self.call_soon(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Return whether there was one."""
        return self.signal_handlers.pop(sig, None) is not None
