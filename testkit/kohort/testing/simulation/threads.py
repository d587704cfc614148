"""Threads of a simulated process: work takes virtual time, and then runs at once, in the one real thread.

What a thread does happens in one piece at the end of its time. Threads of one queue keep their order.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import outcome
import trio

from kohort.broker.runtime.workers import TrioWorkers
from kohort.testing.simulation.kernel import MILLISECOND, SECOND, Kernel, Process

T = TypeVar("T")
R = TypeVar("R")

WORK_NS_MAX = 3 * MILLISECOND


async def run_inline(
    kernel: Kernel,
    function: Callable[..., T],
    *arguments: object,
    limiter: trio.CapacityLimiter | None = None,
) -> T:
    """Return what the function does a while later, in place of `trio.to_thread.run_sync`."""
    async with limiter or nullcontext():
        await trio.sleep(kernel.random.randrange(WORK_NS_MAX) / SECOND)
        with kernel.working() as work:
            done = outcome.capture(function, *arguments)
        if work.slept_ns:
            await trio.sleep(work.slept_ns / SECOND)
        return done.unwrap()


class VirtualThreads(TrioWorkers):
    """What the broker's `Workers` are in a simulated process: tasks are trio's, threads are not there."""

    def __init__(self, nursery: trio.Nursery, process: Process) -> None:
        super().__init__(nursery)
        self._process = process

    def queue(self, name: str) -> "VirtualQueue":
        """Return a thread of its own."""
        return VirtualQueue(self._process)

    def writers(self, name: str, threads: int) -> "VirtualWriters":
        """Return threads that write."""
        return VirtualWriters(self._process)

    def map(self, threads: int, function: Callable[[T], R], arguments: Iterable[T]) -> list[R]:
        """Return what the function returns for each argument."""
        return list(map(function, arguments))

    def check_cancelled(self) -> None:
        """Do nothing: nobody can be cancelled while a piece of work runs."""


class VirtualFuture(Future[T]):
    """The outcome of work. Who blocks for it has the queue do its work first."""

    def __init__(self, queue: "VirtualQueue") -> None:
        super().__init__()
        self._queue = queue

    def result(self, timeout: float | None = None) -> T:
        """Return the outcome. Raises: what the work has raised."""
        while not self.done() and self._queue.do_next():
            pass
        return super().result(timeout)


class VirtualThread:
    """A thread that does its work in order. Each piece of work takes virtual time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._free_at_ns = 0
        self._waiting: deque[Callable[[], object]] = deque()

    def add(self, work: Callable[[], object]) -> None:
        """Do the work once the work before is done. An error in it ends the run of the simulation."""
        kernel = self._process.kernel
        work_ns = kernel.random.randrange(WORK_NS_MAX)
        self._free_at_ns = max(self._free_at_ns, kernel.time_ns) + work_ns
        self._waiting.append(work)
        kernel.call_at(self._free_at_ns, partial(self._process.post, self.do_next))

    def do_next(self) -> bool:
        """Do the oldest piece of work. Return False if there is none."""
        if not self._waiting:
            return False
        with self._process.kernel.working() as work:
            self._waiting.popleft()()
        self._free_at_ns += work.slept_ns
        return True

    def close(self) -> None:
        """Do the remaining work now."""
        while self.do_next():
            pass


class VirtualWriters(VirtualThread):
    """Threads whose work has no outcome that anybody asks for."""

    def submit(self, action: Callable[[], None]) -> None:
        """Do it a while later."""
        self.add(action)


class VirtualQueue(VirtualThread):
    """A thread whose work has outcomes."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._futures: dict[Future[Any], None] = {}  # In the order of their work, until it begins.

    def submit(self, function: Callable[..., T], /, *arguments: object) -> "Future[T]":
        """Do it a while later."""
        future: VirtualFuture[T] = VirtualFuture(self)
        self._futures[future] = None
        self.add(partial(self._complete, future, function, arguments))
        return future

    def shutdown(self, *, cancel_futures: bool = False) -> None:
        """Do the remaining work now, or drop it with `cancel_futures`."""
        if cancel_futures:
            for future in tuple(self._futures):
                future.cancel()
        self.close()

    def _complete(
        self, future: "Future[T]", function: Callable[..., T], arguments: tuple[object, ...]
    ) -> None:
        del self._futures[future]
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function(*arguments))
        except BaseException as error:  # noqa: BLE001  # As a thread of an executor does.
            future.set_exception(error)
