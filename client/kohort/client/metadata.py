"""The client's knowledge of brokers and topics, and its age."""

from collections.abc import Iterable
from uuid import UUID

import msgspec

from kohort.client.assignors import TopicCounts
from kohort.client.topic_ids import ids_in
from kohort.client.values import Node, PartitionInfo, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from kohort.protocol.schema import ZERO_UUID


class TopicMetadata(msgspec.Struct, frozen=True):
    """One topic; `error` is Kafka's code while it can't be used."""

    name: str
    topic_id: UUID
    is_internal: bool
    error: int
    partitions: dict[int, PartitionInfo]


class Metadata:
    """The newest answer about each broker and topic."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.version = 0  # How many answers there were.
        self._racks_by_node: dict[int, str] = {}  # The last known racks: a missing broker keeps its rack.
        self._asked: tuple[frozenset[str] | None, int] = (frozenset(), 0)

    def covers(self, topics: tuple[str, ...] | None, *, since_ms: int) -> bool:
        """Whether an answer about these topics was asked for after `since_ms`."""
        asked, asked_ms = self._asked
        if asked_ms <= since_ms:
            return False
        return asked is None or (topics is not None and asked.issuperset(topics))

    def partition_counts(self) -> TopicCounts:
        """Return the number of partitions of each usable topic, and the racks of their replicas."""
        usable = {name: each.partitions.values() for name, each in self.topics.items() if not each.error}
        counts = {name: len(partitions) for name, partitions in usable.items()}
        if not self._racks_by_node:
            return TopicCounts(counts)
        racks = {name: tuple(map(self._racks, partitions)) for name, partitions in usable.items()}
        return TopicCounts(counts, racks)

    def _racks(self, partition: PartitionInfo) -> frozenset[str]:
        racks = self._racks_by_node
        return frozenset(racks[node_id] for node_id in partition.replicas if node_id in racks)

    def ids_before(self, response: MetadataResponse) -> dict[str, UUID]:
        """Return the ids that were known of topics to which an answer gives others."""
        known, before = self.topics, {}
        for name, told in ids_in(response).items():
            if name in known and known[name].topic_id not in (told, ZERO_UUID):
                before[name] = known[name].topic_id
        return before

    def learn_nodes(self, response: MetadataResponse) -> None:
        """Apply the addresses of the brokers."""
        self.nodes = {
            each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers
        }

    def update(
        self,
        response: MetadataResponse,
        topics: tuple[str, ...] | None,
        asked_ms: int,
        kept: frozenset[str] = frozenset(),
    ) -> None:
        """Apply an answer about `topics`, requested at `asked_ms`; the topics in `kept` stay known."""
        self.version += 1
        self.learn_nodes(response)
        for each in response.brokers:
            self._racks_by_node.pop(each.node_id, None)
            if each.rack:
                self._racks_by_node[each.node_id] = each.rack
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        told = {each.name: _topic(each) for each in response.topics if each.name is not None}
        for name in tuple(self.topics) if topics is None else topics:
            if name not in kept:
                self.topics.pop(name, None)
        self.topics.update(
            (name, each)
            for name, each in told.items()
            if each.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and name not in kept
        )
        self._asked = (None if topics is None else frozenset(topics), asked_ms)

    def learn_leader(
        self, partition: TopicPartition, leader: int, leader_epoch: int, nodes: Iterable[Node]
    ) -> bool:
        """Apply the leader of a partition in an answer; return whether it is new (KIP-951).

        It is not new if its epoch is not newer, or if that broker's address is unknown.
        """
        topic = self.topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        told = {each.node_id: each for each in nodes}
        if topic is None or known is None or leader_epoch <= known.leader_epoch:
            return False
        if leader not in told and leader not in self.nodes:
            return False
        self.nodes.update(told)
        topic.partitions[partition.partition] = msgspec.structs.replace(
            known, leader=leader, leader_epoch=leader_epoch
        )
        return True


def _topic(told: MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        each.partition_index: PartitionInfo(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas,
        )
        for each in sorted(told.partitions, key=lambda each: each.partition_index)
    }
    return TopicMetadata(told.name or "", told.topic_id, told.is_internal, told.error_code, partitions)
