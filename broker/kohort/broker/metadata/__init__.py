"""The metadata of the cluster: topics, partitions, brokers and configurations, behind one interface."""

from kohort.broker.group.events import GROUP_EVENTS_TOPIC
from kohort.broker.metadata.embedded import EmbeddedMetadataStore
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState, offline_replicas
from kohort.broker.metadata.snapshot import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    BrokerState,
    ConfigResource,
    Mutation,
    PartitionKey,
    ResourceType,
    Snapshot,
    TopicState,
)
from kohort.broker.metadata.store import (
    PRODUCER_ID_BLOCK,
    ChangeUnknown,
    MetadataConflict,
    MetadataStore,
    update,
)

__all__ = [
    "GROUP_EVENTS_TOPIC",
    "INTERNAL_TOPICS",
    "NO_LEADER",
    "OFFSETS_TOPIC",
    "PRODUCER_ID_BLOCK",
    "SHARE_STATE_TOPIC",
    "TRANSACTIONS_TOPIC",
    "BrokerState",
    "ChangeUnknown",
    "ConfigResource",
    "EmbeddedMetadataStore",
    "MetadataConflict",
    "MetadataStore",
    "Mutation",
    "PartitionKey",
    "PartitionState",
    "ResourceType",
    "Snapshot",
    "TopicState",
    "offline_replicas",
    "update",
]
