"""The values that the Admin client takes and returns."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from uuid import UUID

import msgspec

from kohort.client.errors import BrokerError
from kohort.client.values import Node, TopicPartition


class ResourceType(IntEnum):
    """The type of the resource of a configuration. Source: ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The source of a value. Source: DescribeConfigsResponse.ConfigSource."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class NewTopic(msgspec.Struct, frozen=True):
    """A topic to be made; -1 takes the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    replicas: Mapping[int, Sequence[int]] = {}
    """The brokers of each partition, instead of two numbers; the first is its preferred leader."""


class PartitionDetails(msgspec.Struct, frozen=True):
    """One partition with its eligible leader replicas, which are not in sync (KIP-966)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...]
    last_known_eligible_leader_replicas: tuple[int, ...]


class TopicDetails(msgspec.Struct, frozen=True):
    """A topic as described by DescribeTopicPartitions."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionDetails, ...]


class ConfigEntry(msgspec.Struct, frozen=True):
    """One setting; the value of a sensitive one is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool


class GroupListing(msgspec.Struct, frozen=True):
    """A group as listed."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(msgspec.Struct, frozen=True):
    """A member with its assignment by topic; for a Streams group its active tasks, by subtopology.

    The epochs and what follows them are of groups that the broker assigns: None or empty for classic ones.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: dict[str, tuple[int, ...]]
    member_epoch: int | None = None
    rack: str | None = None
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None
    target_assignment: dict[str, tuple[int, ...]] = {}
    standby_tasks: dict[str, tuple[int, ...]] = {}
    warmup_tasks: dict[str, tuple[int, ...]] = {}
    upgraded: bool | None = None
    """Of a consumer group: whether the member uses the consumer protocol, and not the classic one."""


class GroupDescription(msgspec.Struct, frozen=True):
    """A group with its members; `assignor` is empty while there is no assignment.

    `type` is `classic`, `consumer`, `share` or `streams`; the epochs are None for a classic group.
    """

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]
    type: str = "classic"
    group_epoch: int | None = None
    assignment_epoch: int | None = None


class ShareGroupOffset(msgspec.Struct, frozen=True):
    """The start offset of a share group in a partition: earlier records are completed. None if unknown.

    `lag` is the number of later records that are not completed (KIP-1226).
    """

    start_offset: int | None
    leader_epoch: int | None = None
    lag: int | None = None


class OpenTransaction(msgspec.Struct, frozen=True):
    """A transaction whose markers are not written yet, with the partitions that it has written to.

    `state`: Ongoing, PrepareCommit, PrepareAbort or PrepareEpochFence.
    """

    transactional_id: str
    producer_id: int
    state: str
    started_ms: int
    timeout_ms: int
    partitions: tuple[TopicPartition, ...] = ()


class ElectionType(IntEnum):
    """Which replicas can be elected. Source: ElectionType."""

    PREFERRED = 0
    """The first of the replicas, if it is in sync."""
    UNCLEAN = 1
    """Any replica, if none is in sync: records that it lacks are lost."""


class ReplicaSize(msgspec.Struct, frozen=True):
    """One replica in a folder: its size, and its lag.

    `offset_lag` is the lag behind the high watermark; of an `is_future` one, which is being moved between
    folders, behind the current replica.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirectory(msgspec.Struct, frozen=True):
    """A broker's folder with its replicas; `error` tells why it can't be used.

    The sizes of its disk are None if the broker does not return them (before Kafka 3.3).
    """

    replicas: dict[TopicPartition, ReplicaSize]
    total_bytes: int | None
    usable_bytes: int | None
    error: BrokerError | None


class PartitionReassignment(msgspec.Struct, frozen=True):
    """A partition that is being reassigned: the brokers of its replicas, the added and the removed ones."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class FeatureRange(msgspec.Struct, frozen=True):
    """From which to which level."""

    min_level: int
    max_level: int


class Features(msgspec.Struct, frozen=True):
    """The features that a broker supports, and those finalized in its cluster, with their epoch if any."""

    supported: dict[str, FeatureRange]
    finalized: dict[str, FeatureRange]
    finalized_epoch: int | None


class FeatureUpgrade(IntEnum):
    """In which direction a level may go. Source: FeatureUpdate.UpgradeType."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
    """Also where metadata are lost by it."""


class ClusterDescription(msgspec.Struct, frozen=True):
    """The cluster's id, its brokers, and the broker to which requests for the controller go."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]
