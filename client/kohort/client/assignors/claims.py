"""Decides which claims to partitions are valid, before a sticky assignor assigns all of them again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kohort.client.assignors.java_order import hash_order, string_hash
from kohort.client.assignors.subscription import Owned, Partition, Subscription

ClaimOf = Callable[[Subscription], tuple[Owned, int]]
"""Reads from a subscription what its member owned, and in which generation."""


@dataclass(slots=True)
class Claims:
    """The valid claims of the members, who are in the order in which Kafka would process them."""

    owned: dict[str, dict[Partition, None]] = field(default_factory=dict)
    """What each member may keep, if its share allows; the values are unused, but dicts keep their order."""

    disputed: set[Partition] = field(default_factory=set)
    """Two members claimed these in the same generation: both are wrong (KAFKA-12984)."""

    formerly: dict[Partition, str] = field(default_factory=dict)
    """The last owner according to members from an older generation."""


def settle_claims(
    subscriptions: Mapping[str, Subscription], counts: Mapping[str, int], claim_of: ClaimOf
) -> Claims:
    """Return the owner of each partition: of two claims the one of the newer generation counts.

    Source: AbstractStickyAssignor.allSubscriptionsEqual and prepopulateCurrentAssignments.
    """
    claims = Claims()
    holder: dict[Partition, str] = {}
    told = {
        member_id: claim_of(subscriptions[member_id]) for member_id in hash_order(subscriptions, string_hash)
    }
    for member_id, (owned, generation_id) in told.items():
        mine = claims.owned.setdefault(member_id, {})
        for partition in _existing(owned, counts):
            rival = holder.get(partition)
            if rival is not None and told[rival][1] > generation_id:
                continue
            if rival is not None:
                claims.owned[rival].pop(partition, None)
            if rival is not None and told[rival][1] == generation_id:
                claims.disputed.add(partition)
            else:
                mine[partition] = None
            holder[partition] = member_id
    _note_former_owners(claims, counts, told)
    return claims


def _note_former_owners(
    claims: Claims, counts: Mapping[str, int], told: Mapping[str, tuple[Owned, int]]
) -> None:
    newest = max((generation_id for _, generation_id in told.values()), default=-1)
    since: dict[Partition, int] = {}
    for member_id, (owned, generation_id) in told.items():
        if generation_id == newest:
            continue
        for partition in _existing(owned, counts):
            if partition not in since or since[partition] < generation_id:
                since[partition] = generation_id
                claims.formerly[partition] = member_id


def _existing(owned: Owned, counts: Mapping[str, int]) -> list[Partition]:
    return [
        (topic, each)
        for topic, partitions in owned.items()
        for each in partitions
        if 0 <= each < counts.get(topic, 0)
    ]
