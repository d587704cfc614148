"""The shards of one topic that this broker has: those whose partitions it leads."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Generic

from structlog.typing import FilteringBoundLogger

from kohort.broker.coordination.machine import CoreT
from kohort.broker.coordination.shard import Shard, ShardState
from kohort.broker.coordination.shard_loading import ShardLoading
from kohort.broker.metadata import MetadataStore
from kohort.broker.runtime.workers import Workers
from kohort.protocol.errors import ApiError, ErrorCode


class LedShards(Generic[CoreT]):
    """Every shard by its partition. All methods belong to the loop's thread.

    Iterating gives the shards that there are; a shard that somebody asks for is made, and loaded on demand.
    """

    def __init__(
        self,
        topic: str,
        metadata: MetadataStore,
        new_shard: Callable[[int, Callable[[Shard[CoreT]], None]], Shard[CoreT]],
        *,
        ensure_topic: Callable[[], Awaitable[object]],
        workers: Workers,
        log: FilteringBoundLogger,
        trouble: str,
        leads: Callable[[int], bool] | None,
        on_dropped: Callable[[int], None] = lambda index: None,
    ) -> None:
        """`new_shard` makes the shard of a partition, whose second argument has a shard loaded.

        `ensure_topic` makes the topic unless it is there, and raises ApiError if it can't. `trouble` is what
        the log says of a load that fails. `leads` says whether this broker leads a partition; without it, it
        leads them all. `on_dropped` hears of partitions that it leads no more.
        """
        self._topic = topic
        self._metadata = metadata
        self._new_shard = new_shard
        self._leads = leads
        self._on_dropped = on_dropped
        self._shards: dict[int, Shard[CoreT]] = {}
        self._loading: ShardLoading[CoreT] = ShardLoading(
            ensure_topic, workers, log, trouble, is_wanted=self._is_wanted, on_unwanted=self._drop
        )

    def partitions(self, default: int) -> int:
        """Return how many partitions the topic has; `default` while it is not there."""
        topic = self._metadata.snapshot().topics.get(self._topic)
        return default if topic is None else len(topic.partitions)

    def is_here(self, index: int) -> bool:
        """Whether this broker has the shard of that partition."""
        return self._leads is None or self._leads(index)

    def __iter__(self) -> Iterator[Shard[CoreT]]:
        return iter(self._shards.values())

    def get(self, index: int) -> Shard[CoreT] | None:
        """Return the shard of a partition, where there is one."""
        return self._shards.get(index)

    def at(self, index: int) -> Shard[CoreT]:
        """Return the shard of a partition, whatever its state; made unless it is there."""
        shard = self._shards.get(index)
        if shard is None:
            shard = self._shards[index] = self._new_shard(index, self._loading.begin)
        return shard

    def here(self, index: int) -> Shard[CoreT]:
        """Return the shard of a partition, whatever its state. Raises: ApiError NOT_COORDINATOR."""
        if not self.is_here(index):
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self.at(index)

    def serving(self, index: int) -> Shard[CoreT]:
        """Return the active shard of a partition.

        Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR where another broker has it.
        """
        shard = self.here(index)
        shard.check_active()
        return shard

    def all_serving(self) -> Iterator[Shard[CoreT]]:
        """Return every shard, all of them loaded. Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        for shard in self._shards.values():
            shard.check_active()
        return iter(self._shards.values())

    # -- who leads ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load every shard whose partition exists; each serves as soon as it is loaded."""
        for index in range(self.partitions(0)):
            if self.is_here(index):
                self._loading.begin(self.at(index))

    def refresh(self) -> None:
        """Take up the shards that this broker leads by now, and drop those that it leads no more."""
        for index in range(self.partitions(0)):
            shard = self._shards.get(index)
            if self.is_here(index):
                shard = shard or self.at(index)
                if shard.state is ShardState.CLOSED:
                    self._loading.begin(shard)
            elif shard is not None:
                del self._shards[index]
                self._on_dropped(index)
                shard.close()  # Who waits is told NOT_COORDINATOR, and who asks is from now on.

    def _is_wanted(self, shard: Shard[CoreT]) -> bool:
        return self._leads is None or (self._shards.get(shard.index) is shard and self._leads(shard.index))

    def _drop(self, shard: Shard[CoreT]) -> None:
        """Take note, at the end of a load, that the partition has got another leader meanwhile."""
        shard.close()
        self.refresh()

    # -- loading ------------------------------------------------------------------------------------------

    @property
    def loading(self) -> set[int]:
        """The partitions whose shards are being loaded."""
        return self._loading.under_way

    async def ready(self, indexes: Iterable[int]) -> None:
        """Return when the shards of these partitions serve, or when that takes too long."""
        await self._loading.ended(self.at(index) for index in indexes if self.is_here(index))

    def are_ready(self, indexes: Iterable[int]) -> bool:
        """Whether the shards of these partitions serve already."""
        return all(self.at(index).state is ShardState.ACTIVE for index in indexes if self.is_here(index))

    def close(self) -> None:
        """Close every shard; what is in their logs stays."""
        for shard in self._shards.values():
            shard.close()
