"""The topics that the broker itself writes: what they are created with."""

from kohort.broker.config import BrokerConfig
from kohort.broker.group.events import GROUP_EVENTS_TOPIC
from kohort.broker.metadata.snapshot import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.broker.metadata.topic_plans import NewTopic

GROUP_EVENTS_PARTITIONS = 1  # One broker writes them all: one file, and one order of everything.
HOUR_MS = 3_600_000
MIB = 1024 * 1024
LONG_MAX = 2**63 - 1


def offsets_topic(config: BrokerConfig) -> NewTopic:
    """Return what `__consumer_offsets` is created with. Source: Kafka's GroupCoordinatorService.

    A broker alone is all replicas that there are.
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
    return NewTopic(
        TRANSACTIONS_TOPIC,
        config.transaction_state_log_num_partitions,
        1,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
        },
    )


def group_events_topic() -> NewTopic:
    """Return what `__group_events` is created with: a week of history at most, written without a sync."""
    return NewTopic(
        GROUP_EVENTS_TOPIC,
        GROUP_EVENTS_PARTITIONS,
        1,
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
    return offsets_topic(config), transactions_topic(config), group_events_topic()
