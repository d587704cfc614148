"""What the Admin takes and returns."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from uuid import UUID

import msgspec

from kohort.client.values import Node


class ResourceType(IntEnum):
    """What a configuration belongs to. Source: ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from. Source: DescribeConfigsResponse.ConfigSource."""

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
    """One partition with the replicas that may lead it though they are not in sync (KIP-966)."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...]
    last_known_eligible_leader_replicas: tuple[int, ...]


class TopicDetails(msgspec.Struct, frozen=True):
    """A topic as DescribeTopicPartitions tells it."""

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
    """A member with what it reads, by topic."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: dict[str, tuple[int, ...]]


class GroupDescription(msgspec.Struct, frozen=True):
    """A group with its members; `assignor` is empty while there is no assignment."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]


class ClusterDescription(msgspec.Struct, frozen=True):
    """The cluster's id, its brokers, and the one that answers for the controller."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]
