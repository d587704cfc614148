"""Tasks and threads, injected: what runs beside the loop's rounds runs by a `Workers`.

Its users know neither trio nor threads, and a simulation uses virtual ones.
"""

from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from queue import SimpleQueue
from threading import Thread
from typing import Protocol, TypeVar

import structlog
import trio

T = TypeVar("T")
R = TypeVar("R")

log = structlog.get_logger("kohort.workers")


class Event(Protocol):
    """Something that tasks wait for. The loop's thread only."""

    def set(self) -> None:
        """Wake the waiter."""
        ...

    async def wait(self) -> None:
        """Return once it is set."""
        ...


class WorkQueue(Protocol):
    """One thread: submitted work is done in that order."""

    def submit(self, function: Callable[..., T], /, *arguments: object) -> "Future[T]":
        """Run it after all work submitted before."""
        ...

    def shutdown(self, *, cancel_futures: bool = False) -> None:
        """End the thread after the running work; with `cancel_futures` drop the rest. Blocks."""
        ...


class Writers(Protocol):
    """A few threads: submitted work is done by one of them."""

    def submit(self, action: Callable[[], None]) -> None:
        """Do it as soon as one of the threads is free."""
        ...

    def close(self) -> None:
        """Return when all submitted work is done. Blocks."""
        ...


class Workers(Protocol):
    """How a part of the broker has work done that the loop does not wait for."""

    def spawn(self, function: Callable[..., Awaitable[object]], /, *arguments: object) -> None:
        """Run the coroutine function as a task of its own, until the broker ends."""
        ...

    async def in_thread(
        self, function: Callable[..., T], /, *arguments: object, limiter: object | None = None
    ) -> T:
        """Return what the function does in a thread; `limiter` is one of `limiter()`."""
        ...

    def limiter(self, threads: int) -> object:
        """Return a limiter that lets at most so many calls of `in_thread` run at once."""
        ...

    def queue(self, name: str) -> WorkQueue:
        """Return a thread of its own."""
        ...

    def writers(self, name: str, threads: int) -> Writers:
        """Return so many threads, which are started with their first work."""
        ...

    def map(self, threads: int, function: Callable[[T], R], arguments: Iterable[T]) -> list[R]:
        """Return the function's result for each argument, so many at once. Blocks. Raises: its errors."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...

    def move_on_after(self, seconds: float) -> AbstractContextManager[object]:
        """Return a block that ends, at any wait, after so many seconds."""
        ...

    async def give_way(self) -> None:
        """Return after other tasks have run."""
        ...

    def event(self) -> Event:
        """Return something to wait for."""
        ...

    def check_cancelled(self) -> None:
        """Raise, in a thread of `in_thread`, if nobody waits for it any more."""
        ...


class LoggedQueue:
    """A `WorkQueue` that logs errors: nobody uses the result of most of its work."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue

    def submit(self, function: Callable[..., T], /, *arguments: object) -> "Future[T]":
        """Run it after all work submitted before."""
        done = self._queue.submit(function, *arguments)
        done.add_done_callback(_log_error)
        return done

    def shutdown(self, *, cancel_futures: bool = False) -> None:
        """End the thread, as the queue does."""
        self._queue.shutdown(cancel_futures=cancel_futures)


def _log_error(done: "Future[T]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("work in a thread failed", exc_info=error)


class DaemonThreads:
    """Threads that do not keep the process alive: a write may hang in a dead disk."""

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._count = threads
        self._threads: list[Thread] = []
        self._actions: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, action: Callable[[], None]) -> None:
        """Do it as soon as one of the threads is free."""
        if not self._threads:
            names = (f"{self._name}-{number}" for number in range(self._count))
            self._threads = [Thread(target=self._run, name=each, daemon=True) for each in names]
            for thread in self._threads:
                thread.start()
        self._actions.put(action)

    def _run(self) -> None:
        while (action := self._actions.get()) is not None:
            action()

    def close(self) -> None:
        """Return when all submitted work is done. Blocks."""
        for _ in self._threads:
            self._actions.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []


class TrioWorkers:
    """The real ones: tasks in a nursery, and trio's threads."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery

    def spawn(self, function: Callable[..., Awaitable[object]], /, *arguments: object) -> None:
        """Run the coroutine function as a task of its own, until the broker ends."""
        self._nursery.start_soon(function, *arguments)

    async def in_thread(
        self, function: Callable[..., T], /, *arguments: object, limiter: object | None = None
    ) -> T:
        """Return the result of the function in a thread; `limiter` is one of `limiter()`."""
        assert limiter is None or isinstance(limiter, trio.CapacityLimiter)
        return await trio.to_thread.run_sync(function, *arguments, limiter=limiter)

    def limiter(self, threads: int) -> trio.CapacityLimiter:
        """Return a limiter that lets at most so many calls of `in_thread` run at once."""
        return trio.CapacityLimiter(threads)

    def queue(self, name: str) -> WorkQueue:
        """Return a thread of its own, which is started by the first work that it gets."""
        return ThreadPoolExecutor(1, name)

    def writers(self, name: str, threads: int) -> Writers:
        """Return so many threads, which are started with their first work."""
        return DaemonThreads(name, threads)

    def map(self, threads: int, function: Callable[[T], R], arguments: Iterable[T]) -> list[R]:
        """Return the function's result for each argument, so many at once. Blocks. Raises: its errors."""
        with ThreadPoolExecutor(threads, "map") as pool:
            return list(pool.map(function, arguments))

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        await trio.sleep(seconds)

    def move_on_after(self, seconds: float) -> trio.CancelScope:
        """Return a block that ends, at any wait, after so many seconds."""
        return trio.move_on_after(seconds)

    async def give_way(self) -> None:
        """Return after other tasks have run."""
        await trio.lowlevel.checkpoint()

    def event(self) -> trio.Event:
        """Return something to wait for."""
        return trio.Event()

    def check_cancelled(self) -> None:
        """Raise, in a thread of `in_thread`, if nobody waits for it any more."""
        trio.from_thread.check_cancelled()
