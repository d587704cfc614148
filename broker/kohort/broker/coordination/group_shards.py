"""The shards of this broker, and which of them a group belongs to."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

import structlog

from kohort.broker.config.current import CurrentConfig
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.group_machine import GroupMachine
from kohort.broker.coordination.led_shards import LedShards
from kohort.broker.coordination.shard import INLINE_LOAD_BYTES, Shard, ShardLogs, ShardState
from kohort.broker.group import (
    Command,
    ExpireOffsets,
    GroupCoordinator,
    TopicsDeleted,
    coordinator_partition,
    final_error,
    refusal,
)
from kohort.broker.group import Event as GroupEvent
from kohort.broker.group.group import AnyGroup
from kohort.broker.metadata import OFFSETS_TOPIC, MetadataStore, Snapshot
from kohort.broker.metadata.deletions import DeletedTopics, topics_deleted
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import Workers
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.coordination.takeovers import Takeovers

GROUPS_REMEMBERED_MAX = 100_000

GroupShard = Shard[GroupCoordinator]

G = TypeVar("G", bound=AnyGroup)

log = structlog.get_logger("kohort.group")


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupShards:
    """Every shard by its partition. All methods belong to the loop's thread."""

    shard_type: ClassVar[type[GroupShard]] = Shard
    """What a simulation that looks on makes its own of."""
    inline_load_bytes: ClassVar[int] = INLINE_LOAD_BYTES

    def __init__(
        self,
        machine: GroupMachine,
        metadata: MetadataStore,
        current: CurrentConfig,
        *,
        ensure_topic: Callable[[], Awaitable[object]],
        logs: ShardLogs,
        flusher: Flusher,
        timers: Timers,
        clock: Clock,
        workers: Workers,
        counters: GroupCounters,
        note: Callable[[GroupEvent], None],
        is_here: Callable[[int], bool] | None = None,
        takeovers: "Takeovers | None" = None,
    ) -> None:
        """`ensure_topic` makes `__consumer_offsets` unless it is there, and raises ApiError if it can't.

        `is_here` says whether this broker leads a partition of it; without it, it leads them all. `takeovers`
        knows from whom it has taken groups over.
        """
        self._machine = machine
        self._group_config = machine.config
        self._metadata = metadata
        self._current = current
        self._logs = logs
        self._flusher = flusher
        self._timers = timers
        self._clock = clock
        self._workers = workers
        self._counters = counters
        self._note = note
        self._is_here = is_here
        self._takeovers = takeovers
        self._shards: LedShards[GroupCoordinator] = LedShards(
            OFFSETS_TOPIC,
            metadata,
            self._new_shard,
            ensure_topic=ensure_topic,
            workers=workers,
            log=log,
            trouble="a shard could not be loaded",
            leads=is_here,
            on_dropped=self._dropped,
        )
        self._groups: dict[str, GroupShard] = {}  # The shard by group id: a hash over a string costs a walk.
        self.deleted_topics = DeletedTopics()
        self._unwatch = metadata.watch(self._follow)

    # -- shards -----------------------------------------------------------------------------------------

    @property
    def partitions(self) -> int:
        """How many partitions `__consumer_offsets` has, or will have."""
        return self._shards.partitions(self._current.config.offsets_topic_num_partitions)

    def start(self) -> None:
        """Load every shard whose partition exists; each serves as soon as it is loaded."""
        self._shards.start()
        self._arm_expiry()

    def is_here(self, index: int) -> bool:
        """Whether this broker coordinates the groups of that partition."""
        return self._shards.is_here(index)

    def refresh(self) -> None:
        """Take up the shards that this broker leads by now, and drop those that it leads no more."""
        self._shards.refresh()

    def _dropped(self, index: int) -> None:
        self._groups.clear()

    def _new_shard(self, index: int, load_soon: Callable[[GroupShard], None]) -> GroupShard:
        return self.shard_type(
            index,
            self._machine,
            logs=self._logs,
            flusher=self._flusher,
            timers=self._timers,
            clock=self._clock,
            workers=self._workers,
            note=self._note if self._takeovers is None else partial(self._takeovers.tell, index, self._note),
            load_soon=load_soon,
            on_loaded=self._loaded,
            inline_load_bytes=self.inline_load_bytes,
        )

    def shard_of(self, group_id: str) -> GroupShard:
        """Return the active shard of a group.

        Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR where another broker has it.
        """
        shard = self._groups.get(group_id)
        if shard is None:
            shard = self._shards.here(coordinator_partition(group_id, self.partitions))
            if shard.state is ShardState.ACTIVE:
                if len(self._groups) >= GROUPS_REMEMBERED_MAX:
                    self._groups.clear()
                self._groups[group_id] = shard
        if shard.state is not ShardState.ACTIVE:
            shard.check_active()
        return shard

    def shard_at(self, index: int) -> GroupShard:
        """Return the active shard of a partition. Raises: ApiError, as `shard_of`."""
        return self._shards.serving(index)

    def refusal(self, command: Command, code: ErrorCode) -> Message | None:
        """Return the answer to a command whose shard can't be asked: what is final comes first."""
        return refusal(command, final_error(command, self._group_config) or code)

    def active(self) -> Iterator[GroupShard]:
        """Return every shard, all of them loaded. Raises: ApiError COORDINATOR_LOAD_IN_PROGRESS."""
        return self._shards.all_serving()

    def groups(self) -> Iterator[AnyGroup]:
        """Iterate over every group that is loaded."""
        for shard in self._shards:
            yield from shard.core.groups.values()

    def group(self, group_id: str) -> AnyGroup | None:
        """Return a group that is loaded, or None."""
        shard = self._shards.get(coordinator_partition(group_id, self.partitions))
        return None if shard is None else shard.core.groups.get(group_id)

    def find(self, group_id: str, kind: type[G]) -> G | None:
        """Return a group that is loaded, if it is of that kind."""
        shard = self._shards.get(coordinator_partition(group_id, self.partitions))
        return None if shard is None else shard.core.find(group_id, kind)

    def tell(self, group_id: str, command: object) -> None:
        """Let a group's shard decide what nobody waits for, if it serves."""
        shard = self._shards.get(coordinator_partition(group_id, self.partitions))
        if shard is not None and shard.state is ShardState.ACTIVE:
            shard.submit(command)

    @property
    def loading(self) -> list[int]:
        """The partitions whose groups cannot be asked yet."""
        return sorted(shard.index for shard in self._shards if shard.state is not ShardState.ACTIVE)

    @property
    def failed(self) -> list[int]:
        """The partitions whose groups could not be loaded; the next request for one tries it again."""
        return [index for index in self.loading if index not in self._shards.loading]

    def shard_counts(self) -> dict[str, int]:
        """Return how many shards serve, how many are being loaded, and how many could not be."""
        counts = {"active": 0, "loading": 0, "failed": 0}
        for shard in self._shards:
            if shard.state is ShardState.ACTIVE:
                counts["active"] += 1
            else:
                counts["loading" if shard.index in self._shards.loading else "failed"] += 1
        return counts

    # -- loading ----------------------------------------------------------------------------------------

    async def ready(self, group_ids: Iterable[str]) -> None:
        """Return when the groups' shards serve, or when that takes too long."""
        indexes = (coordinator_partition(group_id, self.partitions) for group_id in group_ids)
        await self._shards.ready(indexes)

    def are_ready(self, group_ids: Iterable[str]) -> bool:
        """Whether the groups' shards serve already."""
        partitions = self.partitions
        return self._shards.are_ready({coordinator_partition(group_id, partitions) for group_id in group_ids})

    # -- what happens to all ------------------------------------------------------------------------------

    def _follow(self, before: Snapshot, after: Snapshot) -> None:
        """Drop the offsets of deleted topics; one of the same name may have come in the same change.

        In a cluster, take up and drop shards as their partitions get other leaders.
        """
        if self._is_here is not None and before.topics.get(OFFSETS_TOPIC) is not after.topics.get(
            OFFSETS_TOPIC
        ):
            if self._takeovers is not None:
                self._takeovers.follow(before, after)
            self.refresh()
        deleted = topics_deleted(before, after)
        if deleted:
            self.deleted_topics.add(deleted)
            names = frozenset(topic.name for topic in deleted)
            for shard in self._shards:
                if shard.state is ShardState.ACTIVE:
                    self._tell_deleted(shard, names, after)

    def _loaded(self, shard: GroupShard, seconds: float) -> None:
        """Drop the offsets of topics whose deletion was told while the shard was not there to hear of it.

        Where the metadata only lack a topic, they may be older than its offsets. Those stay: nobody is told
        them where another topic has the name by now, and they go by retention.
        """
        self._counters.shard_loaded(seconds)
        if self._takeovers is not None:
            self._takeovers.loaded(shard.index)
        if self.deleted_topics:
            now = self._metadata.snapshot()
            known = shard.core.topic_ids().items()
            names = frozenset(name for name, ids in known if self.deleted_topics.any_of(ids, now))
            self._tell_deleted(shard, names, now)

    def _tell_deleted(self, shard: GroupShard, names: frozenset[str], now: Snapshot) -> None:
        """Have a shard forget the offsets of deleted topics of these names, and share partitions."""
        if names:
            topic_ids = {name: now.topics[name].topic_id for name in names if name in now.topics}
            shard.submit(TopicsDeleted(names, topic_ids))
        if not all(group.has_offsets for group in shard.core.groups.values()):
            from kohort.broker.group.share.commands import ForgetDeletedTopics  # noqa: PLC0415  # Few have any.

            shard.submit(ForgetDeletedTopics(self.deleted_topics.gone(now)))

    def _arm_expiry(self) -> None:
        interval_ms = self._current.config.offsets_retention_check_interval_ms
        deadline_ms = self._clock.now_ms() + interval_ms
        self._timers.set("expire offsets", deadline_ms, self._expire)

    def _expire(self) -> None:
        for shard in self._shards:
            if shard.state is ShardState.ACTIVE:
                shard.submit(ExpireOffsets())
        self._arm_expiry()

    def close(self) -> None:
        """Forget all groups; what is in their logs stays."""
        self._unwatch()
        self._shards.close()
