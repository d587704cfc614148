"""What every client has below its public methods: a cluster, and the metrics of its requests."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio

from kohort.client.cluster import Cluster
from kohort.client.completion import complete
from kohort.client.config import ClientConfig
from kohort.client.errors import WakeupError
from kohort.client.metrics import Metrics
from kohort.client.signal import Signal

CLOSE_TIMEOUT_MS = 5_000


class Session:
    """One client's work in one event loop, open from `__aenter__` to `__aexit__`.

    It has no reference to the client, so that an unused client can be collected.
    """

    finish_timeout_ms = 0
    """How long `finish` may take."""

    def __init__(self, config: ClientConfig, hub: Cluster | None = None) -> None:
        self.cluster = Cluster(config, hub)
        self.metrics = Metrics(config.client_id)

    async def __aenter__(self) -> Self:
        await self.cluster.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cluster.__aexit__(kind, error, trace)

    def check_loop(self) -> None:
        """Return in the event loop that this was opened in. Raises: ConcurrentAccessError in any other."""
        self.cluster.check_loop()

    async def finish(self) -> None:
        """Do the necessary steps before the end, if the client was not closed."""

    async def complete(
        self, work: Callable[[], Awaitable[None]], *, patience_ms: float = CLOSE_TIMEOUT_MS
    ) -> None:
        """Run `work` to its end. A cancelled caller waits at most `patience_ms`."""
        if self.cluster.takes_tasks:
            await complete(self.cluster.tasks, work, patience_ms=patience_ms)
        else:
            await work()


class PollingSession(Session, ABC):
    """A session whose user polls for records: a consumer's, or a share consumer's."""

    finish_timeout_ms = CLOSE_TIMEOUT_MS

    def __init__(self, config: ClientConfig, hub: Cluster | None = None) -> None:
        super().__init__(config, hub)
        self.news = Signal()  # Set when a poll that waits has to look again.
        self._is_woken = False
        self._has_left = False

    def wakeup(self) -> None:
        """Let the poll that waits, or the next one, raise a WakeupError; from any thread.

        A poll that waits notices it when `news` is set.
        """
        self._is_woken = True

    def _raise_if_woken(self) -> None:
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("another thread has woken this consumer up")

    @abstractmethod
    def describe(self) -> str:
        """Return a short description of what this client reads."""

    @abstractmethod
    async def leave(
        self, timeout_ms: float, *, has_failed: bool = False, leave_group: bool | None = None
    ) -> None:
        """Leave the group and end the fetches. Unfinished records of a user who `has_failed` do not count.

        `leave_group` lets a static member leave, or another stay until its session ends (KIP-1092).
        """

    async def leave_in_time(self, timeout_ms: float, *, has_failed: bool, leave_group: bool | None) -> None:
        """Do the same, and stop at the timeout."""
        with anyio.move_on_after(timeout_ms / 1000):
            await self.leave(timeout_ms, has_failed=has_failed, leave_group=leave_group)

    async def finish(self) -> None:
        """Leave, unless that was done. Returned records may not be handled."""
        if not self._has_left:
            await self.leave(CLOSE_TIMEOUT_MS, has_failed=True)
