"""The parts of a mutation: what it changes, whether that was changed meanwhile, and the resulting changes.

Both stores use it to find conflicts. Pure.
"""

from collections.abc import Mapping

import msgspec

from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import ConfigResource, Mutation, PartitionKey, Snapshot, TopicState
from kohort.broker.metadata.store import MetadataConflict
from kohort.broker.metadata.topic_names import metric_name


class Changes(msgspec.Struct):
    """A mutation as the list of the things that it touches; each is compared separately."""

    created: list[TopicState] = msgspec.field(default_factory=list)
    deleted: list[TopicState] = msgspec.field(default_factory=list)
    """In their former state; a topic that is created again in the same change is here, too."""
    altered: list[tuple[TopicState, TopicState]] = msgspec.field(default_factory=list)
    """Before and after of topics whose settings or number of partitions are others."""
    added: dict[PartitionKey, PartitionState] = msgspec.field(default_factory=dict)
    """New partitions of topics that exist."""
    partitions: dict[PartitionKey, tuple[PartitionState, PartitionState]] = msgspec.field(
        default_factory=dict
    )
    """Before and after of partitions that exist."""
    configs: dict[ConfigResource, Mapping[str, str]] = msgspec.field(default_factory=dict)
    """The new settings of these resources."""


def changes_of(basis: Snapshot, mutation: Mutation) -> Changes:
    """Return what the mutation changes, relative to the snapshot on which it was decided."""
    changes = Changes()
    for resource, values in mutation.configs.items():
        if basis.configs.get(resource, {}) != values:
            changes.configs[resource] = values
    for name in mutation.delete:
        before = basis.topics.get(name)
        if before is not None:
            changes.deleted.append(before)
    for topic in mutation.put:
        before = basis.topics.get(topic.name)
        if before is not None and before.topic_id == topic.topic_id:
            _alter(changes, before, topic)
            continue
        if before is not None and before not in changes.deleted:
            changes.deleted.append(before)
        changes.created.append(topic)
    for key, after in mutation.partitions.items():
        _change(changes, key, _existing(basis, key), after)
    return changes


def _existing(basis: Snapshot, key: PartitionKey) -> PartitionState:
    found = basis.partition(key)
    assert found is not None, key
    return found


def _alter(changes: Changes, before: TopicState, after: TopicState) -> None:
    count = len(before.partitions)
    assert len(after.partitions) >= count, "a topic never has fewer partitions"
    if after.configs != before.configs or len(after.partitions) > count:
        changes.altered.append((before, after))
    for state in after.partitions[count:]:
        changes.added[after.topic_id, state.index] = state
    for old, new in zip(before.partitions, after.partitions, strict=False):
        _change(changes, (after.topic_id, new.index), old, new)


def _change(changes: Changes, key: PartitionKey, before: PartitionState, after: PartitionState) -> None:
    if before is not after and before != after:
        assert after.partition_epoch > before.partition_epoch, "every change has an epoch of its own"
        changes.partitions[key] = before, after


def rebased(changes: Changes, basis: Snapshot, now: Snapshot) -> Mutation:
    """Return the mutation that the changes are now. Raises: MetadataConflict."""
    _check(changes, basis, now)
    deleted = tuple(topic.name for topic in changes.deleted)
    put = [*changes.created]
    for before, after in changes.altered:
        present = now.topics[before.name]
        partitions = (*present.partitions, *after.partitions[len(present.partitions) :])
        put.append(msgspec.structs.replace(present, configs=after.configs, partitions=partitions))
    merged = {topic.topic_id: topic for topic in put}
    single: dict[PartitionKey, PartitionState] = {}
    for (topic_id, index), (_, state) in changes.partitions.items():
        topic = merged.get(topic_id)
        if topic is None:
            single[topic_id, index] = state
        else:
            states = list(topic.partitions)
            states[index] = state
            merged[topic_id] = msgspec.structs.replace(topic, partitions=tuple(states))
    return Mutation(tuple(merged.values()), deleted, changes.configs, single)


def _check(changes: Changes, basis: Snapshot, now: Snapshot) -> None:
    """Return if all that the changes touch is as they were decided on. Raises: MetadataConflict."""
    gone = {topic.name for topic in changes.deleted}
    taken = {metric_name(name) for name in now.topics if name not in gone} if changes.created else set()
    for topic in changes.created:
        if metric_name(topic.name) in taken:
            raise MetadataConflict(f"there is a topic {topic.name} by now, or one that it collides with")
    for topic in changes.deleted:
        _check_same_id(topic, now)
    for before, _ in changes.altered:
        present = _check_same_id(before, now)
        if present.configs != before.configs or len(present.partitions) != len(before.partitions):
            raise MetadataConflict(f"topic {before.name} was altered meanwhile")
    for key, (state, _) in changes.partitions.items():
        if now.partition(key) != state:
            raise MetadataConflict(f"partition {key[1]} of topic {key[0]} was changed meanwhile")
    for resource in changes.configs:
        if basis.configs.get(resource) != now.configs.get(resource):
            raise MetadataConflict(
                f"the configuration of {resource.name or 'every broker'} was changed meanwhile"
            )


def _check_same_id(topic: TopicState, now: Snapshot) -> TopicState:
    present = now.topics.get(topic.name)
    if present is None or present.topic_id != topic.topic_id:
        raise MetadataConflict(f"topic {topic.name} was deleted meanwhile")
    return present
