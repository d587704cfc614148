"""The common part of the two asynchronous consumers: how they open, wake up, and leave their group."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import anyio

from kohort.client.any_thread import from_any_thread
from kohort.client.arguments import CONSUMERS_METHODS, OtherNames
from kohort.client.async_client import AsyncClient
from kohort.client.errors import ClosedError
from kohort.client.session import CLOSE_TIMEOUT_MS, PollingSession

AnyPollingSession = TypeVar("AnyPollingSession", bound=PollingSession)


class AsyncPollingClient(AsyncClient[AnyPollingSession], OtherNames):
    """A client that polls as a member of a group, and leaves the group when it is closed."""

    _called_here = CONSUMERS_METHODS
    _is_closed = False
    _from_any_thread: Callable[[Callable[[], None]], None] | None = None

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._from_any_thread = from_any_thread()
        self._subscribe_at_first()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._close(has_failed=kind is not None)
        finally:
            await super().__aexit__(kind, error, trace)

    def __repr__(self) -> str:
        state = "closed " if self._is_closed else ""
        return f"<{state}aio.{type(self).__name__} {self._session.describe()}>"

    def wakeup(self) -> None:
        """End the poll that another task is in, or the next one, with a WakeupError; from any thread."""
        self._session.wakeup()
        if self._from_any_thread is not None:
            self._from_any_thread(self._session.news.set)

    @abstractmethod
    def _subscribe_at_first(self) -> None:
        """Subscribe to the topics that were given when the client was made."""

    async def _close(
        self,
        timeout_ms: float = CLOSE_TIMEOUT_MS,
        *,
        has_failed: bool = False,
        leave_group: bool | None = None,
    ) -> None:
        if self._is_closed:
            return
        self._session.check_loop()
        self._is_closed = True
        leave = partial(self._leave, timeout_ms, has_failed=has_failed, leave_group=leave_group)
        await self._session.complete(leave, patience_ms=timeout_ms)

    async def _leave(self, timeout_ms: float, *, has_failed: bool, leave_group: bool | None) -> None:
        with anyio.move_on_after(timeout_ms / 1000):
            try:
                await self._tell_of_leaving()
            finally:
                await self._session.leave(timeout_ms, has_failed=has_failed, leave_group=leave_group)
            await self._call_back()

    async def _tell_of_leaving(self) -> None:
        """Call the user's listener for the revoked partitions."""

    @abstractmethod
    async def _call_back(self) -> None:
        """Call the user's callbacks of completed commits."""

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this client is closed")
        self._session.check_loop()
