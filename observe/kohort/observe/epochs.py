"""Consumer groups (KIP-848): one record a member, one a group epoch, and the target assignment. Pure.

The records of a change come in order: members first, then the group epoch, then the target assignment of that
epoch, which a coordinator may also make later. The change is told with the target assignment; where that does
not come, it is told with the next epoch, or after a while.
"""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from kohort.broker.explain.observed.events import ObservedMember, Resubscription
from kohort.observe.facts import Facts
from kohort.observe.group import ObservedGroup, Owners, Snapshot
from kohort.protocol.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    CurrentPartitions,
    TargetPartitions,
)
from kohort.protocol.schema import Message

TARGET_MS_MAX = 5_000
"""A change is told without its target assignment if that has not come within this time."""
NAME_MS_MAX = 60_000
"""A change with a topic whose name is unknown waits for the name up to this time."""

Assignments = dict[str, dict[UUID, tuple[int, ...]]]
"""The partitions of each member, by the id of their topic."""


class SavedEpochs(msgspec.Struct, array_like=True):
    """The part of a group with epochs that is stored beside the group."""

    epoch: int
    epoch_ms: int
    metadata_hash: int
    former_hash: int
    is_pending: bool
    has_target: bool
    members: dict[str, ObservedMember]
    targets: Assignments
    current: Assignments
    patterns: dict[str, tuple[str, ...]]
    by_pattern: tuple[Resubscription, ...]
    gone_instances: dict[str, ObservedMember]
    unnamed: set[UUID]
    """Topics that the snapshot has by their id: nobody has said their name yet."""


class Epochs:
    """Follows the records of one consumer group."""

    def __init__(self, group: ObservedGroup, facts: Facts, saved: SavedEpochs | None = None) -> None:
        self._group = group
        self._facts = facts
        self.state = saved or _nothing()

    def take(self, key: Message, value: Message | None, at_ms: int) -> None:
        """Take the next record of the group."""
        self._group.is_by_broker = True
        state = self.state
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            self._member(key.member_id, value, at_ms)
        elif isinstance(key, ConsumerGroupMetadataKey):
            self._epoch(value, at_ms)
        elif isinstance(key, ConsumerGroupTargetAssignmentMemberKey):
            if isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
                state.targets[key.member_id] = _by_topic(value.topic_partitions)
            else:
                state.targets.pop(key.member_id, None)
        elif isinstance(key, ConsumerGroupTargetAssignmentMetadataKey):
            if value is not None:
                state.has_target = True
                if not self._unnamed(state.targets):
                    self.tell()
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._assigned(key.member_id, value)
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            self._pattern(key.regular_expression, value)

    def settle(self, now_ms: int) -> None:
        """Tell a change whose target assignment, or the name of whose topics, has not come for a while."""
        state = self.state
        if not state.is_pending:
            return
        passed_ms = now_ms - state.epoch_ms
        is_whole = state.has_target or passed_ms > TARGET_MS_MAX
        if is_whole and (passed_ms > NAME_MS_MAX or not self._unnamed(state.targets)):
            self.tell()

    def name_topics(self) -> None:
        """Use the names of topics that were not known when a change was told."""
        group, known = self._group, self._facts.topic_names
        for topic_id in self.state.unnamed & known.keys():
            self.state.unnamed.discard(topic_id)
            before, name = str(topic_id), known[topic_id]
            if before in group.snapshot.owners:
                group.snapshot.owners[name] = group.snapshot.owners.pop(before)
            if before in group.partition_counts:
                group.partition_counts[name] = group.partition_counts.pop(before)
        self.own()

    def tell(self) -> None:
        """Tell the change that is not told yet, if there is one."""
        state = self.state
        if not state.is_pending:
            return
        state.is_pending = False
        state.has_target = False
        state.unnamed = self._unnamed(state.targets)
        former, state.former_hash = state.former_hash, state.metadata_hash
        by_pattern, state.by_pattern = state.by_pattern, ()
        self.state.gone_instances.clear()
        self._group.become(
            Snapshot(state.epoch, state.epoch_ms, "", dict(state.members), self._owners(state.targets)),
            by_pattern=by_pattern,
            is_metadata_changed=bool(former) and former != state.metadata_hash,
        )
        self.own()

    @property
    def is_nothing(self) -> bool:
        """Whether the group has no epoch and no member."""
        return self.state.epoch < 0 and not self.state.members

    def own(self) -> None:
        """Have commits counted for the members that own the partitions now."""
        self._group.own(self._owners(self.state.current))

    def _member(self, member_id: str, value: Message | None, at_ms: int) -> None:
        members = self.state.members
        if not isinstance(value, ConsumerGroupMemberMetadataValue):
            gone = members.pop(member_id, None)
            if gone is not None and gone.group_instance_id is not None:
                self.state.gone_instances[gone.group_instance_id] = gone
            return
        member = ObservedMember(
            member_id,
            value.client_id,
            value.client_host,
            value.instance_id,
            tuple(sorted(value.subscribed_topic_names)),
            value.subscribed_topic_regex or "",
            rebalance_timeout_ms=max(value.rebalance_timeout_ms, 0),
        )
        before = self.state.gone_instances.pop(value.instance_id or "", None)
        if before is not None and before.member_id != member_id:
            self._returned(member, before, at_ms)
        members[member_id] = member

    def _returned(self, member: ObservedMember, before: ObservedMember, at_ms: int) -> None:
        """Note that a static member is back, in the generation that goes on with its new member id."""
        group = self._group
        group.static_member_returned(member, before, at_ms, self.state.epoch)
        if before.member_id in group.snapshot.members:
            del group.snapshot.members[before.member_id]
            group.snapshot.members[member.member_id] = member
            group.activities.pop(before.member_id, None)
            for owners in group.snapshot.owners.values():
                for partition, owner in owners.items():
                    if owner == before.member_id:
                        owners[partition] = member.member_id

    def _epoch(self, value: Message | None, at_ms: int) -> None:
        self.tell()
        if not isinstance(value, ConsumerGroupMetadataValue):
            self._group.removed(at_ms)
            self.state = _nothing()
            return
        self.state.epoch = value.epoch
        self.state.epoch_ms = at_ms
        self.state.metadata_hash = value.metadata_hash
        self.state.is_pending = True

    def _assigned(self, member_id: str, value: Message | None) -> None:
        current = self.state.current
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            current[member_id] = _by_topic(value.assigned_partitions)
            self._group.own_some(member_id, self._named(current[member_id]))
        else:
            self._group.own_some("", self._named(current.pop(member_id, {})))

    def _pattern(self, pattern: str, value: Message | None) -> None:
        former = self.state.patterns.pop(pattern, None)
        if not isinstance(value, ConsumerGroupRegularExpressionValue):
            return
        topics = tuple(sorted(value.topics))
        self.state.patterns[pattern] = topics
        if former is not None and former != topics:
            added = tuple(each for each in topics if each not in former)
            dropped = tuple(each for each in former if each not in topics)
            self.state.by_pattern += (Resubscription("", pattern, added, dropped),)

    def _unnamed(self, assignments: Assignments) -> set[UUID]:
        every = {topic_id for topics in assignments.values() for topic_id in topics}
        return every - self._facts.topic_names.keys()

    def _named(self, topics: Mapping[UUID, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Return partitions by the name of their topic, or by its id where the name is not known."""
        names = self._facts.topic_names
        return {names.get(each) or str(each): partitions for each, partitions in topics.items()}

    def _owners(self, assignments: Assignments) -> Owners:
        owners: Owners = {}
        for member_id, topics in assignments.items():
            for topic, partitions in self._named(topics).items():
                owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
        return owners


def _by_topic(
    topics: tuple[TargetPartitions, ...] | tuple[CurrentPartitions, ...],
) -> dict[UUID, tuple[int, ...]]:
    return {each.topic_id: tuple(each.partitions) for each in topics}


def _nothing() -> SavedEpochs:
    return SavedEpochs(-1, 0, 0, 0, False, False, {}, {}, {}, {}, (), {}, set())
