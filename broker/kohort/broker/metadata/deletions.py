"""The deleted topics: those with a reported deletion, not all that a snapshot lacks.

Reloaded metadata may be older than the brokers' knowledge: etcd may have been restored from a
backup. A topic missing in them may exist in newer metadata, so none of its data may be removed.
"""

from collections.abc import Iterable
from uuid import UUID

from kohort.broker.metadata.snapshot import Snapshot, TopicState

DELETED_TOPICS_MAX = 10_000
"""How many deleted topics are remembered for coordinators that load their state later."""


def topics_deleted(before: Snapshot, after: Snapshot) -> tuple[TopicState, ...]:
    """Return the topics that this change of the metadata deletes."""
    if after.is_reloaded or before.topics is after.topics:
        return ()
    return tuple(
        topic
        for name, topic in before.topics.items()
        if (now := after.topics.get(name)) is not topic and (now is None or now.topic_id != topic.topic_id)
    )


class DeletedTopics:
    """The ids and names of the topics that were deleted last, while this process ran."""

    def __init__(self) -> None:
        self._names: dict[UUID, str] = {}

    def __len__(self) -> int:
        return len(self._names)

    def add(self, topics: Iterable[TopicState]) -> None:
        """Remember these, and forget the oldest deletions."""
        for topic in topics:
            self._names[topic.topic_id] = topic.name
        while len(self._names) > DELETED_TOPICS_MAX:
            del self._names[next(iter(self._names))]

    def any_of(self, topic_ids: Iterable[UUID], now: Snapshot) -> bool:
        """Return whether one of these topics was deleted; restored metadata may have it again."""
        return any(each in self._names and each not in now.topics_by_id for each in topic_ids)

    def gone(self, now: Snapshot) -> frozenset[UUID]:
        """Return all that were deleted and do not exist."""
        return frozenset(self._names.keys() - now.topics_by_id.keys())

    def names_gone(self, now: Snapshot) -> frozenset[str]:
        """Return the names of the deleted topics. Other topics may have these names now."""
        return frozenset(name for each, name in self._names.items() if each not in now.topics_by_id)
