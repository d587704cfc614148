"""Loads shards in tasks of their own: until it works, one task for each, and others may wait for the end."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Generic

from structlog.typing import FilteringBoundLogger

from kohort.broker.coordination.machine import CoreT
from kohort.broker.coordination.shard import Shard, ShardState
from kohort.broker.runtime.workers import Event, Workers
from kohort.protocol.errors import ApiError
from kohort.storage import StorageError

LOAD_PATIENCE_SECONDS = 1.0
RELOAD_DELAYS_SECONDS = (0.1, 0.5, 2.0, 10.0)


class ShardLoading(Generic[CoreT]):
    """The loads of one topic's shards. All methods belong to the loop's thread."""

    def __init__(
        self,
        ensure_topic: Callable[[], Awaitable[object]],
        workers: Workers,
        log: FilteringBoundLogger,
        trouble: str,
        *,
        is_wanted: Callable[[Shard[CoreT]], bool] = lambda shard: True,
        on_unwanted: Callable[[Shard[CoreT]], None] = lambda shard: None,
    ) -> None:
        """`trouble` is what the log says of a load that fails.

        `is_wanted` says whether a shard is still to be served here; of one that is not, `on_unwanted` hears
        at the end of its load.
        """
        self._ensure_topic = ensure_topic
        self._workers = workers
        self._log = log
        self._trouble = trouble
        self._is_wanted = is_wanted
        self._on_unwanted = on_unwanted
        self.under_way: set[int] = set()
        """The partitions whose shards are being loaded."""
        self._ended: dict[int, Event] = {}  # Where somebody waits for the end, good or bad.

    def begin(self, shard: Shard[CoreT]) -> None:
        """Load a shard in a task of its own, unless that is under way."""
        if shard.index not in self.under_way:
            self.under_way.add(shard.index)
            self._workers.spawn(self._load, shard)

    async def _load(self, shard: Shard[CoreT]) -> None:
        """Load until it works: a disk that fails is asked again, ever more slowly."""
        try:
            for delay_seconds in (*RELOAD_DELAYS_SECONDS, None):
                try:
                    await self._ensure_topic()
                    if self._is_wanted(shard):
                        await shard.load()
                    break
                except (ApiError, StorageError) as error:
                    self._log.error(self._trouble, shard=shard.index, error=str(error))
                except Exception:  # noqa: BLE001  # A supervisor: one shard's log shall not end the broker.
                    self._log.exception(self._trouble, shard=shard.index)
                if delay_seconds is not None:
                    await self._workers.sleep(delay_seconds)
            else:
                shard.close()  # The next request for it begins anew.
        finally:
            self.under_way.discard(shard.index)
            if not self._is_wanted(shard):
                self._on_unwanted(shard)
            if shard.index in self._ended:
                self._ended.pop(shard.index).set()

    async def ended(self, shards: Iterable[Shard[CoreT]]) -> None:
        """Return when these shards serve or could not be loaded, or when that takes too long.

        A client that has just found its coordinator would otherwise meet COORDINATOR_LOAD_IN_PROGRESS with
        its first request, and wait out a backoff for a load that takes a millisecond.
        """
        with self._workers.move_on_after(LOAD_PATIENCE_SECONDS):
            for shard in shards:
                if shard.state is not ShardState.ACTIVE:
                    self.begin(shard)
                    await self._ended.setdefault(shard.index, self._workers.event()).wait()
