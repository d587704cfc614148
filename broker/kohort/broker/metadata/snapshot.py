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
    """Given anew at each registration; -1 for a broker alone."""
    incarnation_id: UUID | None = None
    """Made anew by each process."""
    directories: tuple[UUID, ...] = ()
    """The ids of its data folders: who comes with another has lost what it held (KIP-858)."""
    is_draining: bool = False
    """Whether it asks to be let go: others shall lead what it leads."""
    is_drained: bool = False
    """Whether an administrator has it lead nothing that another can."""
    former_directories: tuple[UUID, ...] = ()
    """The ids that the folder had before a start at which it could not be shown to have everything."""
    more_addresses: tuple[tuple[str, int], ...] = ()
    """Where clients of its second listener reach it, of its third, and so on."""

    def address(self, listener: int) -> tuple[str, int]:
        """Return where clients of that listener reach it: of one that it has not, as those of the first."""
        if 0 < listener <= len(self.more_addresses):
            return self.more_addresses[listener - 1]
        return self.host, self.port


class ResourceType(IntEnum):
    """What a configuration belongs to. Source: org.apache.kafka.common.config.ConfigResource.Type."""

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
    """What is kept of a user's passwords, likewise."""


class ConfigResource(NamedTuple):
    """A resource whose configuration is kept apart from topics; broker `""` means every broker."""

    type: ResourceType
    name: str


PartitionKey = tuple[UUID, int]
"""A partition by its topic's id and its index."""


class Mutation(msgspec.Struct, frozen=True):
    """What the next snapshot has otherwise: topics put in or taken out, single partitions, configurations.

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
    """The whole metadata at one version. What it maps must not be changed by anybody.

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
    """Given anew to each controller; 0 for a broker alone."""
    is_reloaded: bool = field(default=False, compare=False)
    """Whether all of it was read anew: nobody has told that what is missing in it was deleted."""

    def broker(self, node_id: int) -> BrokerState | None:
        """Return the live broker of this node id."""
        return next((each for each in self.brokers if each.node_id == node_id), None)

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """Return what was set for the group."""
        if not self.configs:
            return {}
        return self.configs.get(ConfigResource(ResourceType.GROUP, group_id), {})

    def partition(self, key: PartitionKey) -> PartitionState | None:
        """Return the partition, or None where there is none."""
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
                by_id.pop(old.topic_id, None)  # It may stand in both.
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
        """Return the next snapshot, in which `broker` stands under its node id."""
        others = [each for each in self.brokers if each.node_id != broker.node_id]
        brokers = sorted([*others, broker], key=lambda each: each.node_id)
        return replace(self, version=self.version + 1, brokers=tuple(brokers), memo={})


def with_partitions(
    topics: Mapping[UUID, TopicState], partitions: Mapping[PartitionKey, PartitionState]
) -> list[TopicState]:
    """Return the topics that these partitions are of, with them in the place of the old ones."""
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
