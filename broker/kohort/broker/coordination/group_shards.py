"""The shards of groups: `__consumer_offsets`, of which each group has its partition."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from kohort.broker.coordination.coordinator_shards import CoordinatorShards
from kohort.broker.coordination.counters import GroupCounters
from kohort.broker.coordination.group_machine import GroupMachine
from kohort.broker.coordination.services import CoordinatorServices
from kohort.broker.coordination.shard import Shard, ShardState
from kohort.broker.explain.history import NO_REBALANCES, GroupRebalances
from kohort.broker.explain.journal import RebalanceJournal
from kohort.broker.group import (
    Command,
    ExpireOffsets,
    GroupCoordinator,
    TopicsDeleted,
    final_error,
    refusal,
)
from kohort.broker.group import Event as GroupEvent
from kohort.broker.group.group import AnyGroup
from kohort.broker.metadata import Snapshot
from kohort.broker.metadata.deletions import DeletedTopics, topics_deleted
from kohort.protocol.compiled import mypyc_attr
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message

if TYPE_CHECKING:
    from kohort.broker.coordination.takeovers import Takeovers

GroupShard = Shard[GroupCoordinator]

G = TypeVar("G", bound=AnyGroup)


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupShards(CoordinatorShards[str, GroupCoordinator]):
    """The shards of groups, by group id."""

    shard_type: ClassVar[type[GroupShard]] = Shard
    """A simulation has its own."""

    def __init__(
        self,
        machine: GroupMachine,
        services: CoordinatorServices,
        *,
        ensure_topic: Callable[[], Awaitable[object]],
        counters: GroupCounters,
        note: Callable[[GroupEvent], None],
        takeovers: "Takeovers | None" = None,
    ) -> None:
        """`note` gets the events of all groups; `takeovers` knows which broker led a partition before."""
        super().__init__(
            machine,
            services,
            ensure_topic=ensure_topic,
            partitions_at_creation=lambda config: config.offsets_topic_num_partitions,
        )
        self._group_config = machine.config
        self._counters = counters
        self._note = note
        self._takeovers = takeovers
        self.deleted_topics = DeletedTopics()
        self._deleted_unheard: dict[int, DeletedTopics] = {}
        """By partition, the topics that were deleted while its shard was here and not active."""

    def start(self) -> None:
        """Load every shard that is here, and expire offsets from now on."""
        self.refresh()
        self._repeat(
            "expire offsets",
            lambda config: config.offsets_retention_check_interval_ms,
            lambda: self.submit_to_active(ExpireOffsets()),
        )

    def _new_shard(self, index: int) -> GroupShard:
        self._deleted_unheard.pop(index, None)  # Its log may have offsets of topics created since then.
        note = self._note if self._takeovers is None else partial(self._takeovers.pass_on, index, self._note)
        return self._make(self.shard_type, index, note)

    def refusal(self, command: Command, code: ErrorCode) -> Message | None:
        """Return the answer to a command whose shard does not serve: an error that stays comes first."""
        return refusal(command, final_error(command, self._group_config) or code)

    # -- looking at groups --------------------------------------------------------------------------------

    def groups(self) -> Iterator[AnyGroup]:
        """Iterate over every group that is loaded."""
        for shard in self._shards.values():
            yield from shard.core.groups.values()

    def group(self, group_id: str) -> AnyGroup | None:
        """Return a group that is loaded, or None."""
        shard = self.active_shard_of(group_id)
        return None if shard is None else shard.core.groups.get(group_id)

    def find(self, group_id: str, kind: type[G]) -> G | None:
        """Return a group that is loaded, if it is of that kind."""
        shard = self.active_shard_of(group_id)
        return None if shard is None else shard.core.find(group_id, kind)

    def rebalances(self, group_id: str) -> GroupRebalances:
        """Return the rebalances of a group, to be read only; none of a group that is not loaded."""
        shard = self.active_shard_of(group_id)
        if shard is None:
            return NO_REBALANCES
        journal = shard.core.journal
        assert isinstance(journal, RebalanceJournal)
        return journal.of(group_id)

    @property
    def inactive(self) -> list[int]:
        """The partitions whose groups cannot be asked yet."""
        return sorted(shard.index for shard in self if shard.state is not ShardState.ACTIVE)

    @property
    def failed(self) -> list[int]:
        """The partitions whose groups could not be loaded, and are loaded again later, or by a request."""
        return [index for index in self.inactive if index not in self.loading]

    def shard_counts(self) -> dict[str, int]:
        """Return how many shards are active, are being loaded, and could not be loaded."""
        inactive, failed = len(self.inactive), len(self.failed)
        return {"active": len(self._shards) - inactive, "loading": inactive - failed, "failed": failed}

    # -- deleted topics -----------------------------------------------------------------------------------

    def _follow(self, before: Snapshot, after: Snapshot) -> None:
        """Also drop the offsets of deleted topics; a topic may be recreated in the same change."""
        if self._takeovers is not None and before.topics.get(self.topic) is not after.topics.get(self.topic):
            self._takeovers.follow(before, after)
        deleted = topics_deleted(before, after)
        if deleted:
            for shard in self:
                if shard.state is not ShardState.ACTIVE:
                    self._deleted_unheard.setdefault(shard.index, DeletedTopics()).add(deleted)
        super()._follow(before, after)
        if deleted:
            self.deleted_topics.add(deleted)
            names = frozenset(topic.name for topic in deleted)
            for shard in self:
                if shard.state is ShardState.ACTIVE:
                    self._tell_deleted(shard, names, after)

    def _loaded(self, shard: GroupShard, seconds: float) -> None:
        """Drop the offsets of topics that were deleted while the shard was not loaded.

        If the metadata only lack a topic, they may be older than its offsets. Those stay: they are not
        returned if another topic has the name by now, and expire by retention.
        """
        self._counters.shard_loaded(seconds)
        if self._takeovers is not None:
            self._takeovers.loaded(shard.index)
        if self.deleted_topics:
            now = self._metadata.snapshot()
            known = shard.core.topic_ids().items()
            names = frozenset(name for name, ids in known if self.deleted_topics.any_of(ids, now))
            if shard is self._shards.get(shard.index) and shard.index in self._deleted_unheard:
                # Offsets written without a topic id are matched by name.
                names |= self._deleted_unheard.pop(shard.index).names_gone(now)
            self._tell_deleted(shard, names, now)

    def _tell_deleted(self, shard: GroupShard, names: frozenset[str], now: Snapshot) -> None:
        """Let a shard remove the offsets of deleted topics with these names, and share partitions."""
        if names:
            topic_ids = {name: now.topics[name].topic_id for name in names if name in now.topics}
            shard.submit(TopicsDeleted(names, topic_ids))
        if not all(group.has_offsets for group in shard.core.groups.values()):
            from kohort.broker.group.share.commands import ForgetDeletedTopics  # noqa: PLC0415  # Few have any.

            shard.submit(ForgetDeletedTopics(self.deleted_topics.gone(now)))
