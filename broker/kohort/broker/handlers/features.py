"""Kafka's features: the supported parts of the protocol, and their levels (Kafka: server.common.Feature)."""

from kohort.broker.config import BrokerConfig

TRANSACTION_VERSION = 2
"""KIP-890's: each end of a transaction gives its producer a new epoch, and brokers add partitions."""
SUPPORTED = {
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": TRANSACTION_VERSION,
}
"""The highest level of each."""


def group_version(config: BrokerConfig) -> int:
    """Return the level of group.version: 0, and there are no consumer groups."""
    return config.kohort_group_version


def has_consumer_groups(config: BrokerConfig) -> bool:
    """Return whether consumer groups (KIP-848) are supported."""
    return bool(group_version(config)) and "consumer" in config.group_coordinator_rebalance_protocols


def has_streams_groups(config: BrokerConfig) -> bool:
    """Return whether streams groups (KIP-1071) are supported."""
    return bool(streams_version(config)) and "streams" in config.group_coordinator_rebalance_protocols


def share_version(config: BrokerConfig) -> int:
    """Return the level of share.version: 0, and there are no share groups."""
    return config.kohort_share_version


def streams_version(config: BrokerConfig) -> int:
    """Return the level of streams.version: 0, and there are no streams groups."""
    return config.kohort_streams_version
