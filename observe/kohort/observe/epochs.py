"""Groups with epochs (KIP-848): one record a member, one a group epoch, and the target assignment. Pure.

Consumer, share and streams groups are alike in this.

The records of a change come in order: members first, then the group epoch, then the target assignment of that
epoch, which a coordinator may also make later. The change is told with the target assignment; where that does
not come, it is told with the next epoch, or after a while.
"""

from typing import TypeVar
from uuid import UUID

import msgspec

from kohort.broker.explain.observed.events import ObservedMember, Resubscription
from kohort.observe.facts import Facts
from kohort.observe.group import ObservedGroup
from kohort.observe.kinds import (
    SHARE,
    STREAMS,
    Assignment,
    Change,
    CurrentChange,
    EpochChange,
    MemberChange,
    PatternChange,
    TargetChange,
    TargetDone,
    TopologyChange,
    partitions_of,
)
from kohort.observe.snapshots import Owners, Snapshot, sharing_topics

TARGET_MS_MAX = 5_000
"""A change is told without its target assignment if that has not come within this time."""
TOPICS_KEPT = 64
NAME_MS_MAX = 60_000
"""A change with a topic whose name is unknown waits for the name up to this time."""

T = TypeVar("T")
Assignments = dict[str, Assignment]
"""What each member has."""


class SavedEpochs(msgspec.Struct, array_like=True):
    """The part of a group with epochs that is stored beside the group."""

    kind: str
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
    topology_epoch: int
    former_topology_epoch: int
    topology: dict[str, tuple[str, ...]]


class Epochs:
    """Follows the records of one group."""

    def __init__(self, group: ObservedGroup, facts: Facts, saved: SavedEpochs | str) -> None:
        """Go on from what was stored, or begin with a group of this kind."""
        self._group = group
        self._facts = facts
        self.state = saved if isinstance(saved, SavedEpochs) else _nothing(saved)
        self.state.members = sharing_topics(self.state.members)

    def take(self, change: Change, at_ms: int) -> None:
        """Take what the next record of the group says."""
        state = self.state
        self._group.is_by_broker, self._group.kind = True, state.kind
        match change:
            case MemberChange(member_id, member):
                self._member(member_id, member, at_ms)
            case EpochChange(epoch, metadata_hash):
                self._epoch(epoch, metadata_hash, at_ms)
            case TargetChange(member_id, assignment):
                _set(state.targets, member_id, assignment)
            case TargetDone():
                state.has_target = True
                if not self._unnamed(state.targets):
                    self.tell()
            case CurrentChange(member_id, assignment):
                self._assigned(member_id, assignment)
            case PatternChange(pattern, topics):
                self._pattern(pattern, topics)
            case TopologyChange(epoch, topics):
                state.topology_epoch, state.topology = epoch, topics

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
            _rename(group.snapshot.owners, before, name)
            _rename(group.partition_counts, before, name)
            for topics in group.snapshot.shared.values():
                _rename(topics, before, name)
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
        topology, state.former_topology_epoch = state.former_topology_epoch, state.topology_epoch
        by_pattern, state.by_pattern = state.by_pattern, ()
        self.state.gone_instances.clear()
        self._group.become(
            self._snapshot(),
            by_pattern=by_pattern,
            is_metadata_changed=bool(former) and former != state.metadata_hash,
            topology_epoch=state.topology_epoch if 0 <= topology < state.topology_epoch else 0,
        )
        self.own()

    def _snapshot(self) -> Snapshot:
        state = self.state
        members = dict(state.members)
        if state.kind == STREAMS:
            read = tuple(sorted({topic for topics in state.topology.values() for topic in topics}))
            members = {
                name: msgspec.structs.replace(each, topics=read[:TOPICS_KEPT])
                for name, each in members.items()
            }
        is_shared = state.kind == SHARE
        shared = {each: self._named(topics) for each, topics in state.targets.items()} if is_shared else {}
        return Snapshot(state.epoch, state.epoch_ms, "", members, self._owners(state.targets), shared)

    @property
    def is_nothing(self) -> bool:
        """Whether the group has no epoch and no member."""
        return self.state.epoch < 0 and not self.state.members

    def own(self) -> None:
        """Have commits counted for the members that own the partitions now."""
        is_shared = self.state.kind == SHARE  # Then nobody can say whose progress it is.
        self._group.own({} if is_shared else self._owners(self.state.current))

    def _member(self, member_id: str, member: ObservedMember | None, at_ms: int) -> None:
        members = self.state.members
        if member is None:
            gone = members.pop(member_id, None)
            if gone is not None and gone.group_instance_id is not None:
                self.state.gone_instances[gone.group_instance_id] = gone
            return
        before = self.state.gone_instances.pop(member.group_instance_id or "", None)
        if before is not None and before.member_id != member_id:
            self._returned(member, before, at_ms)
        other = next(iter(members.values()), member)
        if member.topics == other.topics:  # They share one tuple: most members of a group subscribe alike.
            member = msgspec.structs.replace(member, topics=other.topics)
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

    def _epoch(self, epoch: int, metadata_hash: int, at_ms: int) -> None:
        self.tell()
        if epoch < 0:
            self._group.removed(at_ms)
            self.state = _nothing(self.state.kind)
            return
        self.state.epoch = epoch
        self.state.epoch_ms = at_ms
        self.state.metadata_hash = metadata_hash
        self.state.is_pending = True

    def _assigned(self, member_id: str, assignment: Assignment | None) -> None:
        current = self.state.current
        former = current.get(member_id, {})
        _set(current, member_id, assignment)
        if self.state.kind == SHARE:
            return
        if assignment is None:
            self._group.own_some("", self._named(former))
        else:
            self._group.own_some(member_id, self._named(assignment))

    def _pattern(self, pattern: str, topics: tuple[str, ...] | None) -> None:
        former = self.state.patterns.pop(pattern, None)
        if topics is None:
            return
        self.state.patterns[pattern] = topics
        if former is not None and former != topics:
            added = tuple(each for each in topics if each not in former)
            dropped = tuple(each for each in former if each not in topics)
            self.state.by_pattern += (Resubscription("", pattern, added, dropped),)

    def _unnamed(self, assignments: Assignments) -> set[UUID]:
        if self.state.kind == STREAMS:
            return set()
        every = {UUID(topic_id) for topics in assignments.values() for topic_id in topics}
        return every - self._facts.topic_names.keys()

    def _named(self, assignment: Assignment) -> Assignment:
        """Return partitions by the name of their topic, or by its id where the name is not known."""
        if self.state.kind == STREAMS:
            return partitions_of(assignment, self.state.topology, self._facts.partition_counts)
        names = self._facts.topic_names
        return {names.get(UUID(each)) or each: partitions for each, partitions in assignment.items()}

    def _owners(self, assignments: Assignments) -> Owners:
        owners: Owners = {}
        for member_id, topics in assignments.items():
            for topic, partitions in self._named(topics).items():
                owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
        return owners


def _set(assignments: Assignments, member_id: str, assignment: Assignment | None) -> None:
    if assignment is None:
        assignments.pop(member_id, None)
    else:
        assignments[member_id] = assignment


def _rename(by_topic: dict[str, T], before: str, name: str) -> None:
    if before in by_topic:
        by_topic[name] = by_topic.pop(before)


def _nothing(kind: str) -> SavedEpochs:
    return SavedEpochs(kind, -1, 0, 0, 0, False, False, {}, {}, {}, {}, (), {}, set(), -1, -1, {})
