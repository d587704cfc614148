"""The internal topics: the settings with which the broker creates them."""

from kohort.broker.config import BrokerConfig
from kohort.broker.group.events import GROUP_EVENTS_TOPIC
from kohort.broker.metadata.snapshot import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from kohort.broker.metadata.topic_plans import NewTopic

GROUP_EVENTS_PARTITIONS_OF_A_CLUSTER = 24
"""Each broker writes to the partitions that it leads, so every broker needs some."""
HOUR_MS = 3_600_000
MIB = 1024 * 1024
LONG_MAX = 2**63 - 1


def offsets_topic(config: BrokerConfig) -> NewTopic:
    """Return what `__consumer_offsets` is created with. Source: Kafka's GroupCoordinatorService.

    A broker alone, and one host's workers, are all replicas that there are.
    """
    return NewTopic(
        OFFSETS_TOPIC,
        config.offsets_topic_num_partitions,
        1 if config.kohort_cluster is None else config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


def transactions_topic(config: BrokerConfig) -> NewTopic:
    """Return what `__transaction_state` is created with. Source: Kafka's TransactionLog."""
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
    }
    replicas = 1
    if config.kohort_cluster is not None:
        replicas = config.transaction_state_log_replication_factor
        configs["min.insync.replicas"] = str(config.transaction_state_log_min_isr)
    return NewTopic(
        TRANSACTIONS_TOPIC, config.transaction_state_log_num_partitions, replicas, configs=configs
    )


def share_state_topic(config: BrokerConfig) -> NewTopic:
    """Return what `__share_group_state` is created with. Source: Kafka's ShareCoordinatorService.

    It is not compacted: a record has only changes. Its coordinator deletes records that are not needed.
    """
    configs = {
        "cleanup.policy": "delete",
        "compression.type": "uncompressed",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
    }
    replicas = 1
    if config.kohort_cluster is not None:
        replicas = config.share_coordinator_state_topic_replication_factor
        configs["min.insync.replicas"] = str(config.share_coordinator_state_topic_min_isr)
    return NewTopic(
        SHARE_STATE_TOPIC, config.share_coordinator_state_topic_num_partitions, replicas, configs=configs
    )


def group_events_topic(config: BrokerConfig) -> NewTopic:
    """Return what `__group_events` is created with: a week of history at most, written without a sync.

    One host's workers have a partition each: one file, and one order of all events. In a cluster it has as
    many replicas as the coordinators' topic: otherwise the explanation would be lost with a coordinator.
    """
    is_one_host = config.kohort_cluster is None
    return NewTopic(
        GROUP_EVENTS_TOPIC,
        config.kohort_workers if is_one_host else GROUP_EVENTS_PARTITIONS_OF_A_CLUSTER,
        1 if is_one_host else config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "delete",
            "retention.ms": str(7 * 24 * HOUR_MS),
            "retention.bytes": str(128 * MIB),
            "segment.bytes": str(16 * MIB),
            "flush.messages": str(LONG_MAX),
        },
    )


def internal_topics(config: BrokerConfig) -> tuple[NewTopic, ...]:
    """Return every topic that the broker writes itself."""
    return (
        offsets_topic(config),
        transactions_topic(config),
        share_state_topic(config),
        group_events_topic(config),
    )
