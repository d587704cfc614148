"""Raises leader epochs if a log may have lost its end: readers then check whether their position still
exists.

An epoch must not be used again with other records, also if the metadata were restored
from a backup and have older ones. Kafka elects a new leader when a broker returns, which raises the
epoch; a single broker has no other to elect. Source: KIP-320;
org.apache.kafka.controller.ReplicationControlManager.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

import msgspec

from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import Mutation, PartitionKey, Snapshot, TopicState
from kohort.broker.metadata.store import MetadataStore, update

EPOCHS_SKIPPED = 1_000
"""Above an epoch that metadata have lost: a missing replica may know a few more."""

Chosen = Callable[[UUID, int], bool]
"""Whether a partition, given by its topic's id and its index, is selected."""


async def raise_leader_epochs(store: MetadataStore, node_id: int, chosen: Chosen) -> Snapshot:
    """Return the metadata in which the chosen partitions led by this node have a new leader epoch.

    Raises: StorageError if that could not be made durable; ChangeUnknown.
    """

    def decide(snapshot: Snapshot) -> Mutation:
        raised = (raised_topic(topic, node_id, chosen) for topic in snapshot.topics.values())
        return Mutation(put=tuple(topic for topic in raised if topic is not None))

    return await update(store, decide)


async def raise_above(store: MetadataStore, known: Mapping[PartitionKey, int]) -> Snapshot:
    """Return the metadata in which the leader epoch of each of these partitions is above the one given.

    Raises: StorageError if that could not be made durable; ChangeUnknown.
    """

    def decide(snapshot: Snapshot) -> Mutation:
        states = {key: snapshot.partition(key) for key in known}
        return Mutation(
            partitions={
                key: _above(state, known[key])
                for key, state in states.items()
                if state is not None and state.leader_epoch <= known[key]
            }
        )

    return await update(store, decide)


def _above(state: PartitionState, epoch: int) -> PartitionState:
    step = 1 if state.leader_epoch == epoch else EPOCHS_SKIPPED
    return msgspec.structs.replace(
        state, leader_epoch=epoch + step, partition_epoch=state.partition_epoch + 1
    )


def raised_topic(topic: TopicState, node_id: int, chosen: Chosen) -> TopicState | None:
    """Return the topic as it is then, None where nothing changes."""
    partitions = tuple(
        _next_epoch(each) if each.leader == node_id and chosen(topic.topic_id, each.index) else each
        for each in topic.partitions
    )
    if partitions == topic.partitions:
        return None
    return msgspec.structs.replace(topic, partitions=partitions)


def _next_epoch(partition: PartitionState) -> PartitionState:
    return msgspec.structs.replace(
        partition,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
    )
