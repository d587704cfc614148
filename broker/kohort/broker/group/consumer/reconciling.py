"""The next step of a member's reconciliation with its target assignment (Kafka: CurrentAssignmentBuilder).

A member first revokes partitions outside its target, then reaches the target's epoch, then gets partitions
that others have released. So no partition ever has two owners, and members wait only for its former owner.
"""

from collections.abc import Callable, Sequence, Set
from uuid import UUID

import msgspec

from kohort.broker.group.consumer.member import ConsumerMember, MemberState
from kohort.broker.group.epochs.members import unknown_state
from kohort.broker.group.epochs.partitions import Held, Partitions, TopicPartitions, owns_any

Owned = Sequence[TopicPartitions] | None
"""The partitions that a member claims to own; None if it sent none."""


def reconciled(
    member: ConsumerMember,
    target: Partitions,
    target_epoch: int,
    owner: Callable[[UUID, int], str | None],
    owned: Owned,
    *,
    reads: Set[UUID] | None = None,
) -> ConsumerMember:
    """Return the member after its next step, or itself where it has to wait.

    `reads` are its topics, if they have changed or the target is older; partitions of other topics have
    to be revoked, whatever the target says.
    """
    if reads is not None:
        target = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in reads}
    if member.is_reconciled(target_epoch):
        return member if reads is None else _without_unread(member, reads, owned)
    if member.state is MemberState.UNREVOKED:
        if _still_owns(owned, member.revoking):
            return member if reads is None else _without_unread(member, reads, owned)
        return _next(member, target, target_epoch, owner, owned)
    return _next(member, target, target_epoch, owner, owned)


def check_state(member: ConsumerMember, owned: Owned) -> None:
    """Refuse a member whose logged state is unknown here, until it owns nothing. Raises: ApiError."""
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise unknown_state("consumer", "partitions")


def _still_owns(owned: Owned, revoking: Held) -> bool:
    return owned is None or owns_any(owned, revoking)


def _without_unread(member: ConsumerMember, reads: Set[UUID], owned: Owned) -> ConsumerMember:
    """Return the member, which has to revoke at once its partitions of unsubscribed topics."""
    unread = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in reads}
    if not unread:
        return member
    revoking = {
        topic_id: {**member.revoking.get(topic_id, {}), **unread.get(topic_id, {})}
        for topic_id in {**member.revoking, **unread}
    }
    is_asked = _still_owns(owned, revoking)
    return msgspec.structs.replace(
        member,
        state=MemberState.UNREVOKED if is_asked else member.state,
        previous_epoch=member.epoch,
        assigned={topic_id: held for topic_id, held in member.assigned.items() if topic_id in reads},
        revoking=revoking if is_asked else member.revoking,
    )


def _next(
    member: ConsumerMember,
    target: Partitions,
    target_epoch: int,
    owner: Callable[[UUID, int], str | None],
    owned: Owned,
) -> ConsumerMember:
    kept: dict[UUID, dict[int, int]] = {}
    revoking: dict[UUID, dict[int, int]] = {}
    for topic_id, held in member.assigned.items():
        wanted = target.get(topic_id, frozenset())
        for index, since_epoch in held.items():
            part = kept if index in wanted else revoking
            part.setdefault(topic_id, {})[index] = since_epoch
    if revoking and _still_owns(owned, revoking):
        return msgspec.structs.replace(
            member,
            state=MemberState.UNREVOKED,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoking,
        )
    waits = False
    for topic_id, wanted in target.items():
        mine = kept.get(topic_id, {})
        for index in sorted(wanted - mine.keys()):
            holder = owner(topic_id, index)
            if holder is None or holder == member.member_id:
                kept.setdefault(topic_id, {})[index] = target_epoch
            else:
                waits = True
    return msgspec.structs.replace(
        member,
        state=MemberState.UNRELEASED if waits else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned=kept,
        revoking={},
    )
