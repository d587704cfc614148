"""Calls to a coordinator that continue although their waiter is cancelled.

A request may take effect even without a waiter. Two requests of one producer that overtake each other
would fence it: so the next one waits until the result of the previous one is known.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio

from kohort.client.errors import ClosedError, RequestTimeoutError

if TYPE_CHECKING:
    from kohort.client.cluster import Cluster


class _Call:
    """A call that a separate task makes."""

    __slots__ = ("ended", "error", "is_done")

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.is_done = False
        self.error: Exception | None = None


class Unattended:
    """The running calls of one producer. They end with its cluster's tasks."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._under_way: list[_Call] = []

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Return when `work` has ended; if cancelled, it continues. Raises: its error.

        It starts when the previous call has ended.
        """
        call = _Call()
        self._cluster.tasks.start_soon(self._work, call, tuple(self._under_way), work)
        self._under_way.append(call)
        await call.ended.wait()
        if call.error is not None:
            raise call.error
        if not call.is_done:
            raise ClosedError("the producer was closed while this call was under way")

    async def _work(
        self, call: _Call, before: tuple[_Call, ...], work: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            for each in before:
                await each.ended.wait()
            await work()
            call.is_done = True
        except Exception as error:  # noqa: BLE001 - Any error is raised to the waiter.
            call.error = error
        finally:
            self._under_way.remove(call)
            call.ended.set()

    async def settle(self, timeout_ms: float) -> None:
        """Return when no call is running. Raises: RequestTimeoutError at the timeout."""
        with anyio.move_on_after(timeout_ms / 1000):
            while self._under_way:
                await self._under_way[0].ended.wait()
        if self._under_way:
            raise RequestTimeoutError(
                f"the producer's last call was not answered within {timeout_ms:.0f} ms, and goes on"
            )
