"""The metadata as values: a snapshot never changes, a mutation says how the next one differs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

from kohort.broker.group.events import GROUP_EVENTS_TOPIC
from kohort.broker.metadata.partition_state import PartitionState

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC, GROUP_EVENTS_TOPIC})
"""Topics that the broker writes itself; consumers that subscribe by a pattern pass them over."""


class TopicState(msgspec.Struct, frozen=True):
    """One topic: `partitions[i].index` is `i`; `configs` are the values set on the topic itself."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str] = {}

    @property
    def is_internal(self) -> bool:
        """Return whether the broker keeps its own records in it."""
        return self.name in INTERNAL_TOPICS


class BrokerState(msgspec.Struct, frozen=True):
    """One live broker and the address that clients reach it at."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    epoch: int = -1
    """New at each registration; -1 for a single broker."""
    incarnation_id: UUID | None = None
    """New for each process."""
    directories: tuple[UUID, ...] = ()
    """The ids of its data folders: a broker with another id has lost its records (KIP-858)."""
    is_draining: bool = False
    """Whether it wants to stop: other brokers should lead its partitions."""
    is_drained: bool = False
    """Whether an administrator has it lead nothing that another can."""
    former_directories: tuple[UUID, ...] = ()
    """The former ids of the folder, before a start at which it could not be proved complete."""
    more_addresses: tuple[tuple[str, int], ...] = ()
    """Where clients of its second listener reach it, of its third, and so on."""

    def address(self, listener: int) -> tuple[str, int]:
        """Return its address for clients of that listener; without the listener, that of the first."""
        if 0 < listener <= len(self.more_addresses):
            return self.more_addresses[listener - 1]
        return self.host, self.port


class ResourceType(IntEnum):
    """The type of the resource of a configuration.

    Source: org.apache.kafka.common.config.ConfigResource.Type.
    """

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
    ACL = 1_000
    """Access control entries, which are kept as settings are; no client can name it: a byte has no room."""
    CLIENT_QUOTA = 1_001
    """The quotas of a user, a client or an address, likewise."""
    SCRAM_USER = 1_002
    """A user's stored credentials."""


class ConfigResource(NamedTuple):
    """A resource whose configuration is stored apart from topics; broker `""` means every broker."""

    type: ResourceType
    name: str


PartitionKey = tuple[UUID, int]
"""A partition by its topic's id and its index."""


class Mutation(msgspec.Struct, frozen=True):
    """The differences of the next snapshot: topics added or removed, single partitions, configurations.

    An empty mapping in `configs` removes the resource's configuration. `partitions` are some that exist, of
    topics that the mutation does not name otherwise.
    """

    put: tuple[TopicState, ...] = ()
    delete: tuple[str, ...] = ()
    configs: Mapping[ConfigResource, Mapping[str, str]] = msgspec.field(default_factory=dict)
    partitions: Mapping[PartitionKey, PartitionState] = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.put or self.delete or self.configs or self.partitions)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All metadata at one version. Its mappings must not be changed.

    `memo` is for values that readers derive from this snapshot alone, such as a prepared answer: it
    goes when the snapshot goes, so nothing in it can be stale.
    """

    version: int
    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerState, ...] = ()
    """Those that live, by node id."""
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicState] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    memo: dict[object, object] = field(default_factory=dict, compare=False, repr=False)
    controller_epoch: int = 0
    """New for each controller; 0 for a single broker."""
    is_reloaded: bool = field(default=False, compare=False)
    """Whether it was reloaded completely: then a missing object was not necessarily deleted."""

    def broker(self, node_id: int) -> BrokerState | None:
        """Return the live broker of this node id."""
        return next((each for each in self.brokers if each.node_id == node_id), None)

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return the group's own settings."""
        if not self.configs:
            return {}
        return self.configs.get(ConfigResource(ResourceType.GROUP, group_id), {})

    def partition(self, key: PartitionKey) -> PartitionState | None:
        """Return the partition, or None if there is none."""
        topic = self.topics_by_id.get(key[0])
        return None if topic is None or key[1] >= len(topic.partitions) else topic.partitions[key[1]]

    def after(self, mutation: Mutation) -> "Snapshot":
        """Return the next snapshot; topics that are deleted and put again get the new state."""
        topics, by_id = dict(self.topics), dict(self.topics_by_id)
        put = mutation.put
        if mutation.partitions:
            put = (*put, *with_partitions(by_id, mutation.partitions))
        for name in (*mutation.delete, *(topic.name for topic in put)):
            old = topics.get(name)
            if old is not None:
                by_id.pop(old.topic_id, None)  # It may be in both.
        for name in mutation.delete:
            topics.pop(name, None)
        for topic in put:
            topics[topic.name] = by_id[topic.topic_id] = topic
        configs = {**self.configs, **mutation.configs}
        return replace(
            self,
            version=self.version + 1,
            topics=topics,
            topics_by_id=by_id,
            configs={resource: values for resource, values in configs.items() if values},
            memo={},
        )

    def with_broker(self, broker: BrokerState) -> "Snapshot":
        """Return the next snapshot, with `broker` under its node id."""
        others = [each for each in self.brokers if each.node_id != broker.node_id]
        brokers = sorted([*others, broker], key=lambda each: each.node_id)
        return replace(self, version=self.version + 1, brokers=tuple(brokers), memo={})


def with_partitions(
    topics: Mapping[UUID, TopicState], partitions: Mapping[PartitionKey, PartitionState]
) -> list[TopicState]:
    """Return the topics of these partitions, with the old ones replaced by these."""
    states: dict[UUID, list[PartitionState]] = {}
    for (topic_id, index), state in partitions.items():
        found = states.get(topic_id)
        if found is None:
            found = states[topic_id] = list(topics[topic_id].partitions)
        found[index] = state
    return [
        msgspec.structs.replace(topics[topic_id], partitions=tuple(found))
        for topic_id, found in states.items()
    ]


def topics_by_id(topics: Iterable[TopicState]) -> dict[UUID, TopicState]:
    """Return the topics under their ids."""
    return {topic.topic_id: topic for topic in topics}
