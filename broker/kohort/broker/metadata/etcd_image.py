"""All keys of a cluster as a snapshot: changes go in as etcd reports them, the next snapshot comes out.

It also has the revision that last changed each key, which transactions compare. Pure.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from uuid import UUID

from kohort.broker.etcd.messages import Change, KeyValue
from kohort.broker.metadata.etcd_layout import (
    FORMAT,
    ControllerValue,
    Keys,
    TopicValue,
    broker_state,
    decoded,
    partition_state,
)
from kohort.broker.metadata.partition_state import NO_LEADER, PartitionState
from kohort.broker.metadata.snapshot import (
    BrokerState,
    ConfigResource,
    PartitionKey,
    Snapshot,
    TopicState,
    topics_by_id,
    with_partitions,
)
from kohort.storage import StorageError


class EtcdImage:
    """What etcd has of a cluster, as of one revision."""

    def __init__(self, keys: Keys, items: Iterable[KeyValue], revision: int) -> None:
        """Take the result of a range over the whole prefix. Raises: StorageError."""
        self._keys = keys
        self._revisions: dict[bytes, int] = {}
        self._topics: dict[bytes, TopicValue] = {}
        self._partitions: dict[UUID, dict[int, PartitionState]] = {}
        self._brokers: dict[int, BrokerState] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._cluster_id = ""
        self._controller = NO_LEADER, 0  # Its node id and its epoch.
        self.snapshot = Snapshot(0, "", NO_LEADER)
        self.apply((Change(item) for item in items), revision)

    def revision_of(self, key: bytes) -> int:
        """Return which revision has changed the key last, 0 where there is no such key."""
        return self._revisions.get(key, 0)

    def apply(self, changes: Iterable[Change], revision: int) -> Snapshot:
        """Return the snapshot after all changes of the revisions up to `revision`. Raises: StorageError.

        Unchanged values stay the same objects.
        """
        renewed: dict[bytes, None] = {}
        partitions: dict[PartitionKey, PartitionState] = {}
        for change in changes:
            found = self._keys.parsed(change.item.key)
            self._note_revision(change)
            if isinstance(found, tuple) and not isinstance(found, ConfigResource):
                self._take_partition(found, change, partitions)
            elif found == "topic":
                renewed[change.item.key] = None
                self._take_topic(change)
            else:
                self._take_other(found, change)
        self.snapshot = self._next(renewed, partitions, revision)
        return self.snapshot

    def succeed(self, before: Snapshot) -> Snapshot:
        """Return the reloaded snapshot, with the topics of `before` if they are equal."""
        topics = dict(self.snapshot.topics)
        for name, old in before.topics.items():
            if topics.get(name) == old:
                topics[name] = old
        configs = before.configs if before.configs == self.snapshot.configs else self.snapshot.configs
        self.snapshot = replace(
            self.snapshot,
            topics=topics,
            topics_by_id=topics_by_id(topics.values()),
            configs=configs,
            memo={},
            is_reloaded=True,
        )
        return self.snapshot

    # -- single keys ------------------------------------------------------------------------------------

    def _note_revision(self, change: Change) -> None:
        if change.deleted:
            self._revisions.pop(change.item.key, None)
        else:
            self._revisions[change.item.key] = change.item.mod_revision

    def _take_topic(self, change: Change) -> None:
        if change.deleted:
            self._topics.pop(change.item.key, None)
        else:
            self._topics[change.item.key] = decoded(change.item.key, change.item.value, TopicValue)

    def _take_partition(
        self, key: PartitionKey, change: Change, changed: dict[PartitionKey, PartitionState]
    ) -> None:
        topic_id, index = key
        states = self._partitions.setdefault(topic_id, {})
        if change.deleted:
            changed.pop(key, None)
            states.pop(index, None)
            if not states:
                del self._partitions[topic_id]
        else:
            states[index] = changed[key] = partition_state(change.item.key, index, change.item.value)

    def _take_other(self, found: object, change: Change) -> None:
        item, deleted = change.item, change.deleted
        if isinstance(found, ConfigResource):
            values = {} if deleted else decoded(item.key, item.value, dict[str, str])
            self._configs = {**self._configs, found: values}
            if not values:
                del self._configs[found]
        elif isinstance(found, int):
            if deleted:
                self._brokers.pop(found, None)
            else:
                self._brokers[found] = broker_state(item.key, found, item.create_revision, item.value)
        elif found == "controller":
            self._controller = NO_LEADER, 0
            if not deleted:
                node_id = decoded(item.key, item.value, ControllerValue).node_id
                self._controller = node_id, item.create_revision
        elif found == "cluster_id":
            self._cluster_id = item.value.decode()
        elif found == "format" and item.value != FORMAT:
            found_format = item.value.decode(errors="replace")
            raise StorageError(
                f"the metadata in etcd are of format {found_format!r}, this kohort knows {FORMAT.decode()}"
            )

    # -- the whole --------------------------------------------------------------------------------------

    def _next(
        self, renewed: Collection[bytes], partitions: dict[PartitionKey, PartitionState], revision: int
    ) -> Snapshot:
        before = self.snapshot
        topics, by_id = self._with_topics(renewed) if renewed else (before.topics, before.topics_by_id)
        single = {
            (topic_id, index): state
            for (topic_id, index), state in partitions.items()
            if topic_id in by_id and index < len(by_id[topic_id].partitions)
        }
        if single:
            topics, by_id = dict(topics), dict(by_id)
            for topic in with_partitions(by_id, single):
                topics[topic.name] = by_id[topic.topic_id] = topic
        controller_id, controller_epoch = self._controller
        return Snapshot(
            version=revision,
            cluster_id=self._cluster_id,
            controller_id=controller_id,
            brokers=tuple(self._brokers[node_id] for node_id in sorted(self._brokers)),
            topics=topics,
            topics_by_id=by_id,
            configs=self._configs,
            controller_epoch=controller_epoch,
        )

    def _with_topics(
        self, renewed: Collection[bytes]
    ) -> tuple[dict[str, TopicState], dict[UUID, TopicState]]:
        """Return all topics, those under these keys as they are now."""
        topics = {
            name: topic
            for name, topic in self.snapshot.topics.items()
            if self._keys.topic(name) not in renewed
        }
        for key in renewed:
            value = self._topics.get(key)
            if value is not None:
                states = tuple(self._state(value.topic_id, index) for index in range(value.partitions))
                topics[value.name] = TopicState(value.name, value.topic_id, states, value.configs)
        return topics, topics_by_id(topics.values())

    def _state(self, topic_id: UUID, index: int) -> PartitionState:
        """Return the partition; one whose key somebody has deleted by hand has no replica and no leader."""
        found = self._partitions.get(topic_id, {}).get(index)
        return PartitionState(index, NO_LEADER, 0, (), ()) if found is None else found
