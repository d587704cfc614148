"""The start and the end of a cluster's tasks: with its owner's block, or after a client's final requests."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from kohort.client.errors import ClosedError, KohortError
from kohort.client.home_loop import HomeLoop
from kohort.client.signal import Signal

logger = logging.getLogger(__name__)

Finish = Callable[[], Awaitable[object]]


class ClusterTasks:
    """A task group that ends with its owner's block, and not before; an async context manager.

    A cancelled caller can still send its final requests. A `hub` waits for this cluster as its guest.
    """

    def __init__(self, hub: Self | None) -> None:
        self._hub: Self | None = hub
        self._tasks: TaskGroup | None = None
        self._home: HomeLoop | None = None
        self._ends: anyio.Event | None = None
        self._have_tasks_ended = False
        self._finishing: tuple[Finish, float] | None = None
        self._guests = 0  # Clusters that have this one as their hub.
        self._guest_gone = Signal()
        self._stack = AsyncExitStack()

    def _opened(self) -> None:
        """Start the first tasks."""

    def _close_all(self) -> None:
        """Close everything that prevents a task from ending."""

    async def __aenter__(self) -> Self:
        self._home = HomeLoop()
        host = await self._stack.enter_async_context(anyio.create_task_group())
        self._ends, opened = anyio.Event(), anyio.Event()
        host.start_soon(self._hold_tasks, opened)
        try:
            await opened.wait()
        except BaseException:
            self._end_tasks()
            await self._stack.aclose()
            raise
        self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_tasks()
        if self._home is not None and not self._home.is_in_its_task():
            raise RuntimeError(
                "this client was opened by one task and is closed by another: in fixtures, in place of"
                " `async with`, call `await client.start()` and `await client.stop()`"
            )
        await self._stack.aclose()
        self._tasks = None

    def check_loop(self) -> None:
        """Return in the event loop that this was opened in. Raises: ConcurrentAccessError."""
        if self._home is not None:
            self._home.check()

    async def _hold_tasks(self, opened: anyio.Event) -> None:
        """Keep the tasks until they are ended; a cancelled caller needs them for its final requests.

        They can be ended without the opener of the cluster, and a failure of one ends the cluster.
        """
        if self._hub is not None:
            self._hub._guests += 1
        try:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as self._tasks:
                    opened.set()
                    assert self._ends is not None
                    try:
                        await self._ends.wait()
                        if self._finishing is not None:
                            await self._finish(*self._finishing)
                    finally:  # Where a task has failed, too: connections end by being closed alone.
                        self._end_tasks()
        finally:
            self._have_tasks_ended = True
            if self._hub is not None:
                self._hub._guests -= 1
                self._hub._guest_gone.set()

    async def wait_for_guests(self) -> None:
        """Return when no other cluster uses this one as its hub any more."""
        while self._guests:
            await self._guest_gone.wait()

    def _end_tasks(self) -> None:
        if self._ends is not None:
            self._ends.set()
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        self._close_all()

    def abandon(self, finish: Finish, timeout_ms: float) -> None:
        """Send the final requests in the background, and then end all tasks: the client has no references."""
        if self._ends is not None:
            self._finishing = finish, timeout_ms
            self._ends.set()

    async def _finish(self, finish: Finish, timeout_ms: float) -> None:
        try:
            with anyio.move_on_after(timeout_ms / 1000):
                await finish()
        except KohortError as error:
            logger.debug("a client that nobody had closed: %s", error)

    @property
    def is_open(self) -> bool:
        """Whether it was opened and is not closed, even if its tasks have ended with their loop."""
        return self._tasks is not None

    @property
    def takes_tasks(self) -> bool:
        """Whether tasks can be started: it is open, and no failure of a task has ended them."""
        return self._tasks is not None and not self._have_tasks_ended

    @property
    def tasks(self) -> TaskGroup:
        """The task group that ends with the cluster. Raises: ClosedError outside of `async with`."""
        if self._tasks is None:
            raise ClosedError("this client is not open: use it inside `with` or `async with`")
        return self._tasks
