"""The target assignment of a consumer group: by the assignor that most of its members ask for."""

from collections.abc import Mapping
from uuid import UUID

from kohort.broker.group.consumer.assignors import ASSIGNORS
from kohort.broker.group.consumer.member import ConsumerMember, Resolved, preferred_assignor
from kohort.broker.group.consumer.subscriptions import topics_of
from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.metadata import Metadata

Members = Mapping[str, ConsumerMember]


def assign(
    members: Members,
    current: Mapping[str, Partitions],
    *,
    regexes: Mapping[str, Resolved],
    metadata: Metadata,
    default_assignor: str,
) -> dict[str, Partitions]:
    """Return the target assignment of every member, given the former one."""
    known: dict[tuple[tuple[str, ...], str | None], frozenset[UUID]] = {}
    counts: dict[UUID, int] = {}
    subscriptions: dict[str, frozenset[UUID]] = {}
    for member_id, member in _in_order(members):
        wish = (member.topic_names, member.topic_regex)
        topic_ids = known.get(wish)
        if topic_ids is None:
            topics = [metadata.topics[n] for n in sorted(topics_of(member, regexes)) if n in metadata.topics]
            counts.update((each.topic_id, len(each.partitions)) for each in topics)
            topic_ids = known[wish] = frozenset(each.topic_id for each in topics)
        subscriptions[member_id] = topic_ids
    return ASSIGNORS[preferred_assignor(members, default_assignor)](subscriptions, counts, current)


def _in_order(members: Members) -> list[tuple[str, ConsumerMember]]:
    """Return the members in an order that survives restarts: static ones by their names come first."""
    return sorted(
        members.items(), key=lambda each: (each[1].instance_id is None, each[1].instance_id or each[0])
    )
