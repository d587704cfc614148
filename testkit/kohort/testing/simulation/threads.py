"""Threads of a simulated process: work takes virtual time, and then runs at once, in the one real thread.

What a thread does happens in one piece at the end of its time. Threads of one queue keep their order.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

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
        return function(*arguments)


class VirtualThreads(TrioWorkers):
    """What the broker's `Workers` are in a simulated process: tasks are trio's, threads are not there."""

    def __init__(self, nursery: trio.Nursery, process: Process) -> None:
        super().__init__(nursery)
        self._process = process

    def work_ns(self) -> int:
        """Return how long a thread takes for the next piece of work."""
        return self._process.kernel.random.randrange(WORK_NS_MAX)

    async def in_thread(
        self, function: Callable[..., T], /, *arguments: object, limiter: object | None = None
    ) -> T:
        """Return what the function does, a while later."""
        await trio.sleep(self.work_ns() / SECOND)
        result = function(*arguments)
        await trio.lowlevel.checkpoint()
        return result

    def queue(self, name: str) -> "VirtualQueue":
        """Return a thread of its own."""
        return VirtualQueue(self._process, self.work_ns)

    def writers(self, name: str, threads: int) -> "VirtualWriters":
        """Return threads that write."""
        return VirtualWriters(VirtualQueue(self._process, self.work_ns))

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


class VirtualQueue:
    """Threads that do what they are given, one after the other."""

    def __init__(self, process: Process, work_ns: Callable[[], int]) -> None:
        self._process = process
        self._work_ns = work_ns
        self._free_at_ns = 0
        self._waiting: deque[Callable[[], object]] = deque()

    def submit(self, function: Callable[..., T], /, *arguments: object) -> "Future[T]":
        """Do it once what was submitted before is done."""
        future: VirtualFuture[T] = VirtualFuture(self)
        kernel = self._process.kernel
        self._free_at_ns = max(self._free_at_ns, kernel.time_ns) + self._work_ns()
        self._waiting.append(partial(_complete, future, function, arguments))
        kernel.call_at(self._free_at_ns, partial(self._process.post, self.do_next))
        return future

    def do_next(self) -> bool:
        """Do the oldest piece of work. Return False if there is none."""
        if not self._waiting:
            return False
        self._waiting.popleft()()
        return True

    def shutdown(self, *, cancel_futures: bool = False) -> None:
        """Do what is left now; with `cancel_futures` drop it."""
        if cancel_futures:
            self._waiting.clear()
        self.close()

    def close(self) -> None:
        """Do what is left, now."""
        while self._waiting:
            self._waiting.popleft()()


class VirtualWriters:
    """Threads whose work has no outcome that anybody asks for. An error in it ends the run."""

    def __init__(self, queue: VirtualQueue) -> None:
        self._queue = queue

    def submit(self, action: Callable[[], None]) -> None:
        """Do it a while later."""
        self._queue.submit(action).add_done_callback(lambda done: done.result())

    def close(self) -> None:
        """Do what is left, now."""
        self._queue.close()


def _complete(future: "Future[T]", function: Callable[..., T], arguments: tuple[object, ...]) -> None:
    try:
        future.set_result(function(*arguments))
    except BaseException as error:  # noqa: BLE001  # As a thread of an executor does.
        future.set_exception(error)
