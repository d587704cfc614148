"""What changed in a cluster between two looks at it: topics, partitions, and who coordinates groups. Pure."""

from collections.abc import Iterable, Iterator

import msgspec

from kohort.broker.explain.observed.events import CoordinatorMoved, Grown, TopicsChanged
from kohort.client.assignors.java_order import string_hash


class ClusterLook(msgspec.Struct):
    """A cluster as it was looked at: the partitions of each topic, and who leads those with the groups."""

    at_ms: int = 0
    partition_counts: dict[str, int] = {}
    coordinators: dict[int, int] = {}
    brokers: list[int] = []
    topic_ids: dict[str, str] = {}
    """As text, where the cluster says them: since Kafka 2.8."""


def with_known(look: ClusterLook, before: ClusterLook, unanswered: Iterable[str] = ()) -> ClusterLook:
    """Return a look, completed from the one before where this one has no answer.

    `unanswered`: topics that may exist or not. A partition without a leader keeps
    the former one: the group's coordinator is where it was until another broker has it.
    """
    counts, former = look.partition_counts, before.partition_counts
    kept = {topic: former[topic] for topic in unanswered if topic in former and topic not in counts}
    leaders = {
        partition: node_id if node_id >= 0 else before.coordinators.get(partition, -1)
        for partition, node_id in look.coordinators.items()
    }
    ids = {topic: before.topic_ids[topic] for topic in kept if topic in before.topic_ids}
    return msgspec.structs.replace(
        look,
        partition_counts={**counts, **kept},
        coordinators=leaders or before.coordinators,
        topic_ids={**look.topic_ids, **ids},
    )


def topics_changed(before: ClusterLook, now: ClusterLook) -> TopicsChanged | None:
    """Return which topics came, went and grew; None for none, and for the first look of all.

    A topic with another id went, and came anew.
    """
    if not before.at_ms:
        return None
    old, new = before.partition_counts, now.partition_counts
    ids = before.topic_ids
    anew = {topic for topic, topic_id in now.topic_ids.items() if ids.get(topic, topic_id) != topic_id}
    grown = tuple(
        Grown(topic, old[topic], count)
        for topic, count in new.items()
        if old.get(topic, count) < count and topic not in anew
    )
    created = tuple(sorted((new.keys() - old.keys()) | anew))
    deleted = tuple(sorted((old.keys() - new.keys()) | anew))
    if not (grown or created or deleted):
        return None
    return TopicsChanged(
        at_ms=now.at_ms, since_ms=before.at_ms, created=created, deleted=deleted, grown=grown
    )


def coordinators_moved(
    before: ClusterLook, now: ClusterLook, group_ids: Iterable[str]
) -> Iterator[tuple[str, CoordinatorMoved]]:
    """Yield the groups that another broker coordinates than before."""
    moved = {
        partition: (before.coordinators[partition], node_id)
        for partition, node_id in now.coordinators.items()
        if node_id >= 0 and before.coordinators.get(partition, node_id) not in {node_id, -1}
    }
    if not moved:
        return
    for group_id in group_ids:
        pair = moved.get(partition_of(group_id, len(now.coordinators)))
        if pair is not None:
            former, node_id = pair
            event = CoordinatorMoved(
                at_ms=now.at_ms,
                node_id=node_id,
                former_node_id=former,
                is_former_gone=former not in now.brokers,
                since_ms=before.at_ms,
            )
            yield group_id, event


def partition_of(group_id: str, count: int) -> int:
    """Return the partition of `__consumer_offsets` that a group is in. Source: GroupCoordinatorService."""
    return (string_hash(group_id) & 0x7FFF_FFFF) % count
