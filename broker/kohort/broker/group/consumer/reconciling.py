"""One member brought a step towards its target (Kafka: CurrentAssignmentBuilder).

A member first gives up what it shall no longer have, then comes to the target's epoch, then gets what others
have released. So no partition is ever two members', and members wait for nobody but its former owner.
"""

from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from kohort.broker.group.consumer.member import ConsumerMember, MemberState
from kohort.broker.group.consumer.partitions import Held, Partitions, TopicPartitions, owns_any
from kohort.protocol.errors import ApiError, ErrorCode

Owned = Sequence[TopicPartitions] | None
"""What a member says it owns; None where it said nothing."""


def reconciled(
    member: ConsumerMember,
    target: Partitions,
    target_epoch: int,
    owner: Callable[[UUID, int], str | None],
    owned: Owned,
) -> ConsumerMember:
    """Return the member after its next step, or itself where it has to wait. Raises: ApiError."""
    if member.is_reconciled(target_epoch):
        return member
    if member.state is MemberState.UNREVOKED:
        if _still_owns(owned, member.revoking):
            return member
        return _next(member, target, target_epoch, owner, owned)
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    return _next(member, target, target_epoch, owner, owned)


def _still_owns(owned: Owned, revoking: Held) -> bool:
    return owned is None or owns_any(owned, revoking)


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
            place = kept if index in wanted else revoking
            place.setdefault(topic_id, {})[index] = since_epoch
    if revoking and _still_owns(owned, revoking):
        # A member that has just given up others comes to the epoch after its own, as in Kafka.
        has_revoked = member.state is MemberState.UNREVOKED
        return msgspec.structs.replace(
            member,
            state=MemberState.UNREVOKED,
            epoch=min(member.epoch + 1, target_epoch) if has_revoked else member.epoch,
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
