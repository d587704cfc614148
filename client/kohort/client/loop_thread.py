"""An event loop in a thread of its own, under the blocking clients.

It goes on whatever the user's thread does: so heartbeats are sent while that computes or sleeps.
"""

import asyncio
import atexit
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Generic, ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from kohort.client.errors import ClosedError, WouldBlockError

Session = TypeVar("Session")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

JOIN_TIMEOUT_SECONDS = 10.0


class LoopThread(Generic[Session]):
    """Runs one session's loop, from its making until `stop`."""

    def __init__(self, session: AbstractAsyncContextManager[Session], name: str) -> None:
        self.is_running = False  # Calls are possible; a field, for iteration asks with every record.
        self._manager = session
        self._portal: BlockingPortal | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._ready: Future[None] = Future()
        # A daemon, so that a client which was never closed does not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._ready.result()

    def call(
        self,
        function: Callable[Arguments, Awaitable[Result]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Return what `function` returns when the loop has run it; an interrupt cancels it there."""

        async def run() -> Result:
            return await function(*args, **kwargs)

        future = self._open_portal().start_task_soon(run)
        try:
            return future.result()
        except CancelledError:
            raise ClosedError("this client's background thread has ended") from self._failure
        except BaseException:
            future.cancel()
            raise

    def call_sync(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Return what the plain `function` returns, run by the loop between its other tasks."""
        return self._open_portal().call(lambda: function(*args, **kwargs))

    def call_soon(self, function: Callable[[], None]) -> None:
        """Let the loop run `function`, and don't wait for it; nothing happens when the client is closed."""
        with suppress(RuntimeError):  # The loop has just ended.
            if self._event_loop is not None:
                self._event_loop.call_soon_threadsafe(function)

    def check_may_wait(self, what: str) -> None:
        """Return if this thread may wait for the loop. Raises: ClosedError, WouldBlockError in a callback."""
        self._open_portal()
        if threading.current_thread() is self._thread:
            raise WouldBlockError(f"{what} would wait for itself: it was called in the client's own thread")

    def check_running(self) -> None:
        """Return if calls are possible. Raises: ClosedError."""
        if self._portal is None:
            raise ClosedError("this client is closed")

    def stop(self) -> None:
        """End the session and the thread."""
        self.is_running = False
        portal, self._portal = self._portal, None
        if portal is not None:
            portal.call(portal.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_TIMEOUT_SECONDS)

    def _open_portal(self) -> BlockingPortal:
        if self._portal is None:
            raise ClosedError("this client is closed")
        return self._portal

    def _run(self) -> None:
        try:
            anyio.run(self._serve, backend="asyncio")
        except BaseException as error:
            self.is_running = False
            self._portal = None
            self._failure = error
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _serve(self) -> None:
        async with self._manager, BlockingPortal() as portal:
            self._event_loop = asyncio.get_running_loop()
            self._portal = portal
            self.is_running = True
            self._ready.set_result(None)
            await portal.sleep_until_stopped()


def close_at_exit(close: Callable[[], None]) -> Callable[[], None]:
    """Call `close`, a client's bound method, at the interpreter's end unless the client is gone before.

    Returns: what takes that back.
    """
    method = weakref.WeakMethod(close)

    def run() -> None:
        bound = method()
        if bound is not None:
            bound()

    atexit.register(run)
    return lambda: atexit.unregister(run)
