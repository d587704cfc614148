"""The target assignment: what every member shall have, decided anew for a new group epoch."""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from kohort.broker.group.consumer.assignors import ASSIGNORS
from kohort.broker.group.consumer.group import ConsumerGroup, Resolved
from kohort.broker.group.consumer.member import ConsumerMember, preferred_assignor
from kohort.broker.group.consumer.records import target_epoch_record, target_record
from kohort.broker.group.consumer.subscriptions import Metadata, topics_of
from kohort.broker.group.epochs.partitions import Partitions
from kohort.broker.group.turn import Turn

Members = Mapping[str, ConsumerMember]


class Wishes(msgspec.Struct, frozen=True):
    """What is to be assigned: members, what they have been given, and topics, as they are after this turn."""

    members: Members
    current: Mapping[str, Partitions]
    regexes: Mapping[str, Resolved]
    metadata: Metadata


def update_target(turn: Turn, group: ConsumerGroup, epoch: int, wishes: Wishes) -> dict[str, Partitions]:
    """Return what every member shall have from `epoch` on, and log what of it is new."""
    members, metadata = wishes.members, wishes.metadata
    known: dict[tuple[tuple[str, ...], str | None], frozenset[UUID]] = {}
    counts: dict[UUID, int] = {}
    subscriptions: dict[str, frozenset[UUID]] = {}
    for member_id, member in _in_order(members):
        wish = (member.topic_names, member.topic_regex)
        topic_ids = known.get(wish)
        if topic_ids is None:
            topics = [metadata.topics[n] for n in topics_of(member, wishes.regexes) if n in metadata.topics]
            counts.update((each.topic_id, len(each.partitions)) for each in topics)
            topic_ids = known[wish] = frozenset(each.topic_id for each in topics)
        subscriptions[member_id] = topic_ids
    name = preferred_assignor(members, turn.config.default_consumer_assignor)
    targets = ASSIGNORS[name](subscriptions, counts, wishes.current)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            turn.log(target_record(group.group_id, member_id, target))
    turn.log(target_epoch_record(group.group_id, epoch, turn.now_ms))
    return targets


def _in_order(members: Members) -> list[tuple[str, ConsumerMember]]:
    """Return the members in an order that restarts do not change: static ones by their names come first."""
    return sorted(
        members.items(), key=lambda each: (each[1].instance_id is None, each[1].instance_id or each[0])
    )
