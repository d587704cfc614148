"""What every asynchronous client is: opened and closed by `async with`, or by `start` and `stop`.

Only one task may use `async with`: the background tasks belong to the task that has entered it.
`start` and `stop` may be called by different tasks, such as the fixtures of pytest: a separate task enters
the client and leaves it.
"""

import weakref
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

import anyio
import anyio.lowlevel

from kohort.client.errors import ClosedError
from kohort.client.home_loop import HomeLoop
from kohort.client.metrics import MetricName
from kohort.client.session import Session
from kohort.client.unclosed import OpenTasks

if TYPE_CHECKING:
    import asyncio

AnySession = TypeVar("AnySession", bound=Session)


class _Stay:
    """A client that a separate task keeps open."""

    def __init__(self, client: "AsyncClient[Any]") -> None:
        self._client: AsyncClient[Any] | None = client  # While it opens, and while it closes.
        self._known = weakref.ref(client)
        self._session: Session = client._session
        self._is_abandoned = False
        self._home = HomeLoop()
        self._opened = anyio.Event()
        self._stopping = anyio.Event()
        self._ended = anyio.Event()
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Return when the client is open. Raises: the error of its opening."""
        _spawn(self)
        try:
            await self._opened.wait()
        except BaseException:
            self._stopping.set()
            raise
        if self._ended.is_set():
            self._raise()

    async def end(self, client: "AsyncClient[Any]") -> None:
        """Return when the client is closed; if cancelled, the close continues.

        Raises: the error of the close; ConcurrentAccessError in another loop while it is open.
        """
        if not self._ended.is_set():
            self._home.check()
        self._client = client
        self._stopping.set()
        await self._ended.wait()
        self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def abandon(self) -> None:
        """Close a client that has no references any more. In the loop's thread."""
        self._is_abandoned = True
        self._stopping.set()

    async def __aenter__(self) -> None:
        assert self._client is not None
        await self._client.__aenter__()
        self._client = None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client = self._client or self._known()
        if client is not None:
            await client.__aexit__(kind, error, trace)
            return
        try:
            if self._is_abandoned and error is None:
                with anyio.move_on_after(self._session.finish_timeout_ms / 1000):
                    await self._session.finish()
        finally:
            await self._session.__aexit__(kind, error, trace)

    async def run(self) -> None:
        """Enter, and leave when that is wanted. In its own task."""
        try:
            async with self:
                self._opened.set()
                await self._stopping.wait()
        except Exception as error:  # noqa: BLE001 - Any error is raised to the caller of start or stop.
            self._error = error
        finally:
            self._ended.set()
            self._opened.set()

    def keep(self, task: "asyncio.Task[None]") -> None:
        """Hold the task: asyncio does not."""
        self._task = task


def _spawn(stay: _Stay) -> None:
    """Start a task in the running loop; neither library is imported for it."""
    native = anyio.lowlevel.current_token().native_token
    if hasattr(native, "run_sync_soon"):
        from trio.lowlevel import spawn_system_task  # noqa: PLC0415  # It runs already.

        spawn_system_task(stay.run, name=stay)
    else:
        stay.keep(cast("asyncio.AbstractEventLoop", native).create_task(stay.run()))


class AsyncClient(Generic[AnySession]):
    """A client whose session runs in the event loop that opens it; `shared` is the connection it uses."""

    _stay: _Stay | None = None
    _open: OpenTasks | None = None

    def __init__(self, session: AnySession, shared: object = None) -> None:
        self._session = session
        self._shared = shared  # As long as this client is held, its connection is.

    def __del__(self) -> None:
        if self._open is not None:
            session, stay = self._session, self._stay
            abandon = partial(session.cluster.abandon, session.finish, session.finish_timeout_ms)
            self._open.end_soon(self, abandon if stay is None else stay.abandon)

    async def __aenter__(self) -> Self:
        await self._session.__aenter__()
        self._open = OpenTasks(self._session.cluster)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.__aexit__(kind, error, trace)

    async def start(self) -> Self:
        """Open the client until `stop`: in place of `async with`, and in any task.

        A failure in the background does not end the task that has started the client, as `async with` does:
        calls raise it, and so does `stop`.
        """
        if self._stay is not None:
            raise ClosedError("this client was started before: make another one")
        self._stay = _Stay(self)
        await self._stay.begin()
        return self

    async def stop(self) -> None:
        """Close the client, as the end of its block does. A client that was never started is closed."""
        if self._stay is not None:
            await self._stay.end(self)

    def metrics(self) -> Mapping[MetricName, float]:
        """Return what this client counts, under the names of Kafka's Java client."""
        return self._session.metrics.read()
