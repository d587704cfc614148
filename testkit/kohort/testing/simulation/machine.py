"""The machine of a simulated broker: virtual sockets, and threads that take virtual time."""

from pathlib import Path
from typing import Any, NamedTuple, cast

import trio

from kohort.broker.composition.machine import Machine
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.addresses import Address
from kohort.testing.simulation.kernel import MILLISECOND, Process
from kohort.testing.simulation.sockets import Sockets, VirtualPoller
from kohort.testing.simulation.threads import VirtualThreads

DISK_BYTES = 100 * 1024**3


class DiskUsage(NamedTuple):
    """How large a disk is."""

    total: int
    free: int


class ProcessTime(Clock):
    """The clock of a process, for its broker."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        """Return elapsed time in milliseconds since 1970."""
        return (self._process.wall_ns() - self._process.wall_ahead_ns) // MILLISECOND

    def wall_ms(self) -> int:
        """Return wall time in milliseconds since 1970."""
        return self._process.wall_ns() // MILLISECOND


class TrioPoller(VirtualPoller):
    """The reactor's poller in a trio program."""

    def __init__(self, sockets: Sockets) -> None:
        super().__init__(sockets)
        self._task: trio.lowlevel.Task | None = None
        self.on_ready = self._wake

    async def wait(self, seconds: float) -> None:
        """Return when there may be events, or after `seconds`."""
        if self.has_events:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(seconds):
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _abort(self, _raise_cancel: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class VirtualMachine(Machine):
    """What a broker takes from its machine, in a `TrioProcess`."""

    def __init__(self, sockets: Sockets, boot_id: str) -> None:
        """`boot_id` is another one each time the machine had no power."""
        self._sockets = sockets
        self._boot_id = boot_id

    def boot_id(self) -> str:
        """Return which run of the machine this is."""
        return self._boot_id

    def workers(self, nursery: trio.Nursery) -> Workers:
        """Return what runs tasks and threads."""
        return VirtualThreads(nursery, self._sockets.process)

    def poller(self) -> TrioPoller:
        """Return a new poller for the reactor."""
        return TrioPoller(self._sockets)

    def socket_pair(self) -> Any:
        """Return two sockets that are connected with each other."""
        return self._sockets.pair()

    def bind(self, address: Address, *, is_shared: bool = False) -> Any:
        """Return a bound socket. Raises: OSError with the address."""
        sock = self._sockets.socket()
        try:
            sock.bind((address.host, address.port))
        except OSError as error:
            raise OSError(f"cannot listen on {address}: {error.strerror}") from error
        return cast(Any, sock)

    def disk_usage(self, path: Path) -> DiskUsage:
        """Return the bytes of the disk, which has room."""
        return DiskUsage(DISK_BYTES, DISK_BYTES)
