"""The common part of the two blocking consumers: one thread at a time, and the close."""

from abc import abstractmethod
from types import TracebackType
from typing import Any, TypeVar

from kohort.client.arguments import CONSUMERS_METHODS, OtherNames
from kohort.client.blocking.client import BlockingClient
from kohort.client.blocking.one_thread import OneThread, by_one_thread
from kohort.client.polling import AsyncPollingClient
from kohort.client.session import CLOSE_TIMEOUT_MS

Client_co = TypeVar("Client_co", bound=AsyncPollingClient[Any], covariant=True)


class BlockingPollingClient(BlockingClient[Client_co], OneThread, OtherNames):
    """A client that one thread at a time polls. The user's callbacks run in that thread."""

    _called_here = CONSUMERS_METHODS

    def __init__(
        self, client: Client_co, thread_name: str, shared: BlockingClient[Any] | None = None
    ) -> None:
        OneThread.__init__(self)
        super().__init__(client, thread_name, shared)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(has_failed=kind is not None)

    @by_one_thread
    def _exit(self, *, has_failed: bool) -> None:
        self._close(has_failed=has_failed)

    def _close(
        self,
        timeout_ms: float = CLOSE_TIMEOUT_MS,
        *,
        has_failed: bool = False,
        leave_group: bool | None = None,
    ) -> None:
        if not self._loop.is_running or self._is_closing:
            return
        self._is_closing = True
        session = self._client._session
        try:
            self._not_at_exit()
            self._tell_of_leaving()
        finally:
            try:
                self._loop.call_to_end(
                    session.leave_in_time, timeout_ms, has_failed=has_failed, leave_group=leave_group
                )
            finally:
                self._loop.stop()
        self._call_back()

    def wakeup(self) -> None:
        """End the poll that another thread is in, or the next one, with a WakeupError; from any thread."""
        session = self._client._session
        session.wakeup()
        self._loop.call_soon(session.news.set)

    def _tell_of_leaving(self) -> None:
        """Call the user's listener for the revoked partitions."""

    @abstractmethod
    def _call_back(self) -> None:
        """Call the user's callbacks of completed commits."""
