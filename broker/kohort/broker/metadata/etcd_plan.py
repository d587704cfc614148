"""Changes as transactions of etcd: their comparisons and operations, none larger than etcd accepts.

A topic exists when its own key does. So if there are too many partitions for one transaction, those of
a new topic, and those added to a topic, are written before, where nobody reads yet. Many
changes of existing partitions are several transactions, each complete. Pure.
"""

from collections.abc import Iterator, Sequence

import msgspec

from kohort.broker.etcd.messages import Compare, Delete, Operation, Put, prefix_end, unchanged_since
from kohort.broker.metadata.changes import Changes
from kohort.broker.metadata.etcd_image import EtcdImage
from kohort.broker.metadata.etcd_layout import Keys, encoded, partition_value, topic_value
from kohort.broker.metadata.partition_state import PartitionState
from kohort.broker.metadata.snapshot import BrokerState

OPERATIONS_MAX = 100
"""Of one transaction, and as many comparisons; etcd's --max-txn-ops is 128 unless it is set."""


class TooManyChanges(ValueError):
    """One change has more topics or settings than etcd takes in a transaction."""


class Transaction(msgspec.Struct):
    """Operations that are done if all comparisons hold."""

    compares: list[Compare] = msgspec.field(default_factory=list)
    operations: list[Operation] = msgspec.field(default_factory=list)

    def add(self, compare: Compare, *operations: Operation) -> None:
        """Do these, too, and only if that holds as well."""
        if compare not in self.compares:
            self.compares.append(compare)
        self.operations += operations

    def __len__(self) -> int:
        return len(self.operations)


def with_directories(changes: Changes, brokers: Sequence[BrokerState]) -> Changes:
    """Return the changes with the directory id of each replica of new partitions, if all are known."""
    folders = {each.node_id: each.directories[0] for each in brokers if len(each.directories) == 1}

    def with_its_directories(state: PartitionState) -> PartitionState:
        if state.directories or not folders.keys() >= set(state.replicas):
            return state
        return msgspec.structs.replace(state, directories=tuple(folders[each] for each in state.replicas))

    created = [
        msgspec.structs.replace(topic, partitions=tuple(map(with_its_directories, topic.partitions)))
        for topic in changes.created
    ]
    added = {key: with_its_directories(state) for key, state in changes.added.items()}
    return msgspec.structs.replace(changes, created=created, added=added)


class Planner:
    """Makes the transactions of one change; the image still has all that the change was decided on."""

    def __init__(self, keys: Keys, image: EtcdImage) -> None:
        self._keys = keys
        self._image = image

    def transactions(self, changes: Changes) -> list[Transaction]:
        """Return the transactions, in order. Raises: TooManyChanges."""
        commit = self._commit(changes)
        if len(commit) > OPERATIONS_MAX:
            raise TooManyChanges(f"one change has at most {OPERATIONS_MAX} topics and settings")
        placed, single = list(self._placed(changes)), list(self._single(changes))
        if len(commit) + len(placed) + len(single) <= OPERATIONS_MAX:
            for compare, put in (*placed, *single):
                commit.add(compare, put)
            return [commit] if len(commit) else []
        return [*_chunks(placed), *([commit] if len(commit) else []), *_chunks(single)]

    def _unchanged(self, key: bytes) -> Compare:
        return unchanged_since(key, self._image.revision_of(key))

    def _commit(self, changes: Changes) -> Transaction:
        """Return what makes topics exist, or be gone, and what changes settings."""
        commit = Transaction()
        created = {self._keys.topic(topic.name) for topic in changes.created}
        for topic in changes.deleted:
            key, partitions = self._keys.topic(topic.name), self._keys.partitions_of(topic.topic_id)
            commit.add(self._unchanged(key), Delete(partitions, prefix_end(partitions)))
            if key not in created:
                commit.add(self._unchanged(key), Delete(key))
        for topic in (*changes.created, *(after for _, after in changes.altered)):
            key = self._keys.topic(topic.name)
            commit.add(self._unchanged(key), Put(key, topic_value(topic)))
        for resource, values in changes.configs.items():
            key = self._keys.config(resource)
            commit.add(self._unchanged(key), Put(key, encoded(values)) if values else Delete(key))
        return commit

    def _placed(self, changes: Changes) -> Iterator[tuple[Compare, Put]]:
        """Yield new partitions; the comparison protects a topic that was changed meanwhile."""
        for topic in changes.created:
            compare = self._unchanged(self._keys.topic(topic.name))
            for state in topic.partitions:
                key = self._keys.partition((topic.topic_id, state.index))
                yield compare, Put(key, partition_value(state))
        names = {after.topic_id: after.name for _, after in changes.altered}
        for (topic_id, index), state in changes.added.items():
            compare = self._unchanged(self._keys.topic(names[topic_id]))
            yield compare, Put(self._keys.partition((topic_id, index)), partition_value(state))

    def _single(self, changes: Changes) -> Iterator[tuple[Compare, Put]]:
        for partition, (_, after) in changes.partitions.items():
            key = self._keys.partition(partition)
            yield self._unchanged(key), Put(key, partition_value(after))


def _chunks(puts: list[tuple[Compare, Put]]) -> Iterator[Transaction]:
    for begin in range(0, len(puts), OPERATIONS_MAX):
        transaction = Transaction()
        for compare, put in puts[begin : begin + OPERATIONS_MAX]:
            transaction.add(compare, put)
        yield transaction
