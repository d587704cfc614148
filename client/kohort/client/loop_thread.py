"""An event loop in a separate thread, under the blocking clients.

It runs independently of the user's thread: heartbeats are sent while that computes or sleeps. The user's
thread waits for it in the interpreter's locks, inside which no signal handler runs: one that closes
the client, at any point, does not wait for a call that it has interrupted itself.
"""

import asyncio
import atexit
import logging
import os
import threading
import weakref
from _thread import allocate_lock
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

import anyio
from anyio.abc import TaskGroup

from kohort.client.cluster_tasks import Finish
from kohort.client.errors import ClosedError, KohortError, WouldBlockError
from kohort.client.signal import Signal
from kohort.client.unclosed import has_ended

logger = logging.getLogger(__name__)

Session = TypeVar("Session")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

JOIN_TIMEOUT_SECONDS = 10.0
CLOSED = "this client is closed"
FORKED = "this client was made in another process, of which this one is a fork: make a client here"


class _Call(Generic[Result]):
    """A call that the loop runs while another thread waits for it."""

    __slots__ = ("_done", "_error", "_function", "_is_cancelled", "_is_done", "_outcome", "_scope")

    def __init__(self, function: Callable[[], Awaitable[Result]]) -> None:
        self._function = function
        self._done = allocate_lock()
        self._done.acquire()
        self._outcome: tuple[Result] | None = None
        self._error: Exception | None = None
        self._scope: anyio.CancelScope | None = None
        self._is_cancelled = False
        self._is_done = False

    async def run(self) -> None:
        """Run it, and wake the waiter. In the loop's thread."""
        try:
            with anyio.CancelScope() as self._scope:
                if not self._is_cancelled:
                    self._outcome = (await self._function(),)
        except Exception as error:  # noqa: BLE001 - Any error is raised to the waiter.
            self._error = error
        finally:
            self.let_go()

    def cancel(self) -> None:
        """Cancel it: there is no waiter any more. In the loop's thread."""
        self._is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def let_go(self) -> None:
        """Wake the waiter, with or without a result."""
        self._is_done = True
        if self._done.locked():
            self._done.release()

    def wait(self) -> None:
        """Return when it has been run, or never will be."""
        self._done.acquire()

    def wait_through(self) -> None:
        """Do the same, and raise what a signal handler raises meanwhile only then."""
        try:
            self.wait()
        except BaseException:
            if not self._is_done:
                self.wait()
            raise

    def outcome(self) -> tuple[Result] | None:
        """Return its result, None if it did not run to its end. Raises: its error."""
        if self._error is not None:
            raise self._error
        return self._outcome


class LoopThread(Generic[Session]):
    """Runs one session's loop, from its making until `stop`; with a `host` in that one's loop and thread.

    `forked` is called in a child process, which has everything but the thread.
    """

    def __init__(
        self,
        session: AbstractAsyncContextManager[Session],
        name: str,
        forked: Callable[[], None] = lambda: None,
        host: "LoopThread[Any] | None" = None,
    ) -> None:
        self.is_running = False  # Calls are possible; a field, for iteration asks with every record.
        self._manager = session
        self._forked = forked
        self._tasks: TaskGroup | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._stopping: anyio.Event | None = None
        self._context = Context()  # The loop's, by which anyio knows where it is.
        self._calls: set[_Call[Any]] = set()
        self._has_ended = False
        self._why_closed = CLOSED
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._ended = allocate_lock()
        self._ended.acquire()
        self._host = host
        self._guests: set[LoopThread[Any]] = set()
        self._guest_gone = Signal()
        if host is None:
            # A daemon, so that a client which was never closed does not keep the interpreter from ending.
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        else:
            self._thread = host._thread
            host._invite(self)
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        _loop_threads.add(self)

    def call(
        self,
        function: Callable[Arguments, Awaitable[Result]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Return what `function` returns when the loop has run it; an interrupt cancels it there."""
        call = _Call(partial(function, *args, **kwargs))
        return self._run_call(call, call.wait)

    def call_to_end(
        self,
        function: Callable[Arguments, Awaitable[Result]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Do the same, but raise an interrupt only when the loop has run it; a second one at once."""
        call = _Call(partial(function, *args, **kwargs))
        return self._run_call(call, call.wait_through)

    def _run_call(self, call: "_Call[Result]", wait: Callable[[], None]) -> Result:
        self._calls.add(call)
        try:
            self._begin(call)
            wait()
        except BaseException:
            self.call_soon(call.cancel)
            raise
        finally:
            self._calls.discard(call)
        outcome = call.outcome()
        if outcome is None:
            raise ClosedError(f"{self._why_closed}; it was while this call was under way") from self._failure
        return outcome[0]

    def _invite(self, guest: "LoopThread[Any]") -> None:
        """Run another session in this loop until that is stopped, or this is. Raises: ClosedError."""
        self.check_may_wait("a client's making")
        assert self._event_loop is not None
        assert self._tasks is not None
        self._guests.add(guest)  # From now on its end is reported in any case.
        try:
            self._event_loop.call_soon_threadsafe(
                self._tasks.start_soon, guest._run_as_guest, context=self._context
            )
        except RuntimeError as error:  # The loop has just ended.
            raise ClosedError(self._why_closed) from error

    def _begin(self, call: "_Call[Result]") -> None:
        if self._tasks is None or self._event_loop is None or not self.is_running or self._has_ended:
            raise ClosedError(self._why_closed) from self._failure
        if threading.get_ident() == self._thread.ident:
            raise WouldBlockError("it would wait for itself: it was called in the client's own thread")
        try:
            self._event_loop.call_soon_threadsafe(self._tasks.start_soon, call.run, context=self._context)
        except RuntimeError as error:  # The loop has just ended.
            raise ClosedError(self._why_closed) from error

    def call_sync(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Return the result of the plain `function`, run by the loop between its other tasks."""

        async def run() -> Result:
            return function(*args, **kwargs)

        return self.call(run)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Let the loop run `function`, and don't wait for it; nothing happens when the client is closed."""
        with suppress(RuntimeError):  # The loop has just ended.
            if self._event_loop is not None:
                self._event_loop.call_soon_threadsafe(function, context=self._context)

    def check_may_wait(self, what: str) -> None:
        """Return if this thread may wait for the loop. Raises: ClosedError, WouldBlockError in a callback."""
        self.check_running()
        if threading.current_thread() is self._thread:
            raise WouldBlockError(f"{what} would wait for itself: it was called in the client's own thread")

    def check_running(self) -> None:
        """Return if calls are possible. Raises: ClosedError."""
        if not self.is_running:
            raise ClosedError(self._why_closed) from self._failure

    def stop(self) -> None:
        """End the session and the thread; running calls end with a ClosedError.

        Guests of this loop are stopped first.
        """
        for guest in tuple(self._guests):
            guest.stop()
        self.is_running = False
        if self._stopping is not None:
            self.call_soon(self._stopping.set)
        if threading.current_thread() is self._thread:
            return
        if self._host is None:
            self._thread.join(JOIN_TIMEOUT_SECONDS)
        elif self._ended.acquire(timeout=JOIN_TIMEOUT_SECONDS):
            self._ended.release()

    def abandon(self, finish: Finish, timeout_ms: float) -> None:
        """Send the final requests within the timeout, then end, in the background: the client has no
        references.

        From any thread, including the loop's own, and at any moment: it is the client's finalizer.
        """

        def begin() -> None:
            if self._tasks is not None:
                self._tasks.start_soon(self._end_by_itself, finish, timeout_ms)

        self.call_soon(begin)

    async def _end_by_itself(self, finish: Finish, timeout_ms: float) -> None:
        assert self._stopping is not None
        try:
            with anyio.move_on_after(timeout_ms / 1000):
                await finish()
                while self._guests:  # Their clients have no references either.
                    await self._guest_gone.wait()
        except KohortError as error:
            logger.debug("a client that nobody had closed: %s", error)
        finally:
            self._stopping.set()

    def wait_for_end(self, timeout_ms: float) -> None:
        """Return when it has ended by itself, or at the timeout."""
        if self._ended.acquire(timeout=timeout_ms / 1000 + JOIN_TIMEOUT_SECONDS):
            self._ended.release()

    def after_fork(self) -> None:
        """Be closed: in this process there is no thread that could do anything."""
        self.is_running = False
        self._tasks = self._event_loop = self._stopping = None
        has_ended(self)
        self._guests.clear()  # Each of them is informed separately.
        if self._ended.locked():
            self._ended.release()
        self._why_closed = FORKED
        self._forked()

    def _run(self) -> None:
        try:
            anyio.run(self._serve, backend="asyncio")
        except BaseException as error:
            self._failure = error
            if self._ready.is_set():
                raise
        finally:
            self._end()

    async def _run_as_guest(self) -> None:
        assert self._host is not None
        try:
            await self._serve()
        except Exception as error:
            self._failure = error
            if self._ready.is_set():
                logger.exception("a client has failed; the others of its cluster connection go on")
        finally:
            self._host._guests.discard(self)
            self._host._guest_gone.set()
            self._end()

    def _end(self) -> None:
        """Wake all waiters for this loop, or for a guest of it."""
        self.is_running = False
        self._has_ended = True
        for guest in tuple(self._guests):
            guest._end()
        for each in tuple(self._calls):
            each.let_go()
        self._ready.set()
        if self._ended.locked():
            self._ended.release()
        has_ended(self)

    async def _serve(self) -> None:
        async with self._manager, anyio.create_task_group() as tasks:
            self._context = copy_context()
            self._event_loop = asyncio.get_running_loop()
            self._tasks = tasks
            self._stopping = anyio.Event()
            self.is_running = True
            self._ready.set()
            await self._stopping.wait()
            tasks.cancel_scope.cancel()


_loop_threads: "weakref.WeakSet[LoopThread[Any]]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for each in tuple(_loop_threads):
        each.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def close_at_exit(close: Callable[[], None]) -> Callable[[], None]:
    """Call `close`, a client's bound method, at the interpreter's end unless the client is collected before.

    Returns: a function that cancels that.
    """
    method = weakref.WeakMethod(close)

    def run() -> None:
        bound = method()
        if bound is not None:
            bound()

    atexit.register(run)
    return lambda: atexit.unregister(run)
