"""The client library: consumer, producer and admin for kohort and for Apache Kafka.

from kohort.client import Admin, Consumer, Producer          # blocking
from kohort.client.aio import Admin, Consumer, Producer      # trio or asyncio
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kohort.client.acls import (
        Acl,
        AclFilter,
        AclOperation,
        AclPatternType,
        AclPermission,
        AclResourceType,
    )
    from kohort.client.admin_values import (
        ClusterDescription,
        ConfigEntry,
        ConfigSource,
        ElectionType,
        FeatureRange,
        Features,
        FeatureUpgrade,
        GroupDescription,
        GroupListing,
        LogDirectory,
        MemberDescription,
        NewTopic,
        PartitionDetails,
        PartitionReassignment,
        ReplicaSize,
        ResourceType,
        ShareGroupOffset,
        TopicDetails,
    )
    from kohort.client.assignors import Assignor, Subscription
    from kohort.client.blocking.admin import Admin
    from kohort.client.blocking.cluster_connection import ClusterConnection
    from kohort.client.blocking.consumer import Consumer
    from kohort.client.blocking.producer import Delivery, Producer
    from kohort.client.blocking.share_consumer import ShareConsumer
    from kohort.client.consumer_records import ConsumerRecords
    from kohort.client.errors import (
        AuthenticationError,
        BrokerError,
        BufferFullError,
        ClosedError,
        CommitFailedError,
        ConcurrentAccessError,
        ConfigurationError,
        DeliveryTimeoutError,
        DeserializationError,
        ItemsError,
        KohortError,
        LogTruncationError,
        MissingExtraError,
        NetworkError,
        NoOffsetError,
        NotAcquiredError,
        PartitionerError,
        ProducerFencedError,
        RebalanceInProgressError,
        RequestTimeoutError,
        SerializationError,
        SslAuthenticationError,
        TransactionFailedError,
        TransactionStateError,
        UnsupportedVersionError,
        WakeupError,
        WouldBlockError,
    )
    from kohort.client.listener import RebalanceListener
    from kohort.client.metrics import MetricName
    from kohort.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
    from kohort.client.quotas import QUOTA_DEFAULT, QuotaEntity
    from kohort.client.share.values import AcknowledgeType, ShareRecord
    from kohort.client.values import (
        ConsumerRecord,
        GroupMetadata,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        RecordMetadata,
        TimestampType,
        TopicDescription,
        TopicPartition,
    )

_HOME = {
    "acls": "Acl AclFilter AclOperation AclPatternType AclPermission AclResourceType",
    "admin_values": (
        "ClusterDescription ConfigEntry ConfigSource ElectionType FeatureRange FeatureUpgrade Features"
        " GroupDescription GroupListing LogDirectory MemberDescription NewTopic PartitionDetails"
        " PartitionReassignment ReplicaSize ResourceType ShareGroupOffset TopicDetails"
    ),
    "assignors": "Assignor Subscription",
    "blocking.admin": "Admin",
    "blocking.cluster_connection": "ClusterConnection",
    "blocking.consumer": "Consumer",
    "blocking.producer": "Delivery Producer",
    "blocking.share_consumer": "ShareConsumer",
    "consumer_records": "ConsumerRecords",
    "errors": (
        "AuthenticationError BrokerError BufferFullError ClosedError CommitFailedError"
        " ConcurrentAccessError ConfigurationError"
        " DeliveryTimeoutError DeserializationError ItemsError KohortError LogTruncationError"
        " MissingExtraError NetworkError NoOffsetError NotAcquiredError PartitionerError"
        " ProducerFencedError RebalanceInProgressError RequestTimeoutError SerializationError"
        " SslAuthenticationError"
        " TransactionFailedError TransactionStateError UnsupportedVersionError"
        " WakeupError WouldBlockError"
    ),
    "listener": "RebalanceListener",
    "metrics": "MetricName",
    "offsets": "EARLIEST LATEST MAX_TIMESTAMP",
    "quotas": "QUOTA_DEFAULT QuotaEntity",
    "share.values": "AcknowledgeType ShareRecord",
    "values": (
        "ConsumerRecord GroupMetadata Node OffsetAndMetadata OffsetAndTimestamp PartitionInfo"
        " RecordMetadata TimestampType TopicDescription TopicPartition"
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "QUOTA_DEFAULT",
    "AcknowledgeType",
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermission",
    "AclResourceType",
    "Admin",
    "Assignor",
    "AuthenticationError",
    "BrokerError",
    "BufferFullError",
    "ClosedError",
    "ClusterConnection",
    "ClusterDescription",
    "CommitFailedError",
    "ConcurrentAccessError",
    "ConfigEntry",
    "ConfigSource",
    "ConfigurationError",
    "Consumer",
    "ConsumerRecord",
    "ConsumerRecords",
    "Delivery",
    "DeliveryTimeoutError",
    "DeserializationError",
    "ElectionType",
    "FeatureRange",
    "FeatureUpgrade",
    "Features",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "ItemsError",
    "KohortError",
    "LogDirectory",
    "LogTruncationError",
    "MemberDescription",
    "MetricName",
    "MissingExtraError",
    "NetworkError",
    "NewTopic",
    "NoOffsetError",
    "Node",
    "NotAcquiredError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionDetails",
    "PartitionInfo",
    "PartitionReassignment",
    "PartitionerError",
    "Producer",
    "ProducerFencedError",
    "QuotaEntity",
    "RebalanceInProgressError",
    "RebalanceListener",
    "RecordMetadata",
    "ReplicaSize",
    "RequestTimeoutError",
    "ResourceType",
    "SerializationError",
    "ShareConsumer",
    "ShareGroupOffset",
    "ShareRecord",
    "SslAuthenticationError",
    "Subscription",
    "TimestampType",
    "TopicDescription",
    "TopicDetails",
    "TopicPartition",
    "TransactionFailedError",
    "TransactionStateError",
    "UnsupportedVersionError",
    "WakeupError",
    "WouldBlockError",
]


def __getattr__(name: str) -> object:
    """Import a public name at its first use: whoever needs the admin alone does not load the consumer."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
