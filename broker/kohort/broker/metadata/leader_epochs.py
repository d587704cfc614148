"""Leader epochs, raised where a log may have lost its end: readers then look whether theirs is still there.

Kafka elects a leader anew when a broker comes back, which raises the epoch; a broker on its own has nobody
who would. Source: KIP-320; org.apache.kafka.controller.ReplicationControlManager.
"""

from collections.abc import Callable
from uuid import UUID

import msgspec

from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import Mutation, Snapshot, TopicState
from kohort.broker.metadata.store import MetadataStore, update

Chosen = Callable[[UUID, int], bool]
"""Whether a partition, named by its topic's id and its index, is meant."""


async def raise_leader_epochs(store: MetadataStore, node_id: int, chosen: Chosen) -> Snapshot:
    """Return the metadata in which the chosen partitions that this node leads have a new leader epoch.

    Raises: StorageError if that could not be made durable; ChangeUnknown.
    """

    def decide(snapshot: Snapshot) -> Mutation:
        raised = (raised_topic(topic, node_id, chosen) for topic in snapshot.topics.values())
        return Mutation(put=tuple(topic for topic in raised if topic is not None))

    return await update(store, decide)


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
