"""A group in one generation, and how it differs from the one before. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from kohort.broker.explain.observed.events import ObservedMember, Resubscription, Subscribers

TOLD_MAX = 16
SUBSCRIBERS_TOLD = 8

Owners = dict[str, dict[int, str]]


class Snapshot(msgspec.Struct):
    """A group in one generation, or at one group epoch. `owners` has the member of each partition."""

    generation_id: int = -1
    at_ms: int = 0
    protocol_name: str = ""
    members: dict[str, ObservedMember] = {}
    owners: Owners = {}
    shared: dict[str, dict[str, tuple[int, ...]]] = {}
    """Of a share group: the partitions of each member. In `owners` a partition has one of its members."""

    def owned(self) -> dict[str, list[tuple[str, int]]]:
        """Return the partitions of all members that have some."""
        if self.shared:
            return {each: _sorted(topics) for each, topics in self.shared.items()}
        found: dict[str, list[tuple[str, int]]] = {}
        for topic, owners in sorted(self.owners.items()):
            for partition, member_id in sorted(owners.items()):
                found.setdefault(member_id, []).append((topic, partition))
        return found


def _sorted(topics: Mapping[str, Iterable[int]]) -> list[tuple[str, int]]:
    return sorted((topic, each) for topic, partitions in topics.items() for each in partitions)


def sharing_topics(members: Mapping[str, ObservedMember]) -> dict[str, ObservedMember]:
    """Return the members, among which those with equal subscriptions share one tuple.

    A hundred members whose pattern matches a thousand topics would keep a hundred tuples of a thousand names.
    """
    seen: dict[tuple[str, ...], tuple[str, ...]] = {}
    return {
        member_id: msgspec.structs.replace(each, topics=seen.setdefault(each.topics, each.topics))
        for member_id, each in members.items()
    }


def resubscription(old: ObservedMember, new: ObservedMember) -> Resubscription:
    """Return how the subscription of a member differs from its former one."""
    before, after = set(old.topics), set(new.topics)
    return Resubscription(
        new.member_id,
        new.client_id,
        tuple(sorted(after - before))[:TOLD_MAX],
        tuple(sorted(before - after))[:TOLD_MAX],
    )


def subscribers(members: Iterable[ObservedMember]) -> tuple[Subscribers, ...]:
    """Return how many members have each subscription."""
    by_topics: dict[tuple[str, ...], list[ObservedMember]] = {}
    for each in members:
        topics = tuple(sorted(each.topics)) or ((each.topic_regex,) if each.topic_regex else ())
        by_topics.setdefault(topics, []).append(each)
    found: list[Subscribers] = []
    for topics, those in list(by_topics.items())[:SUBSCRIBERS_TOLD]:
        clients = sorted({each.client_id for each in those})
        found.append(Subscribers(topics[:TOLD_MAX], len(those), tuple(clients)[:SUBSCRIBERS_TOLD]))
    return tuple(found)


def moved(old: Snapshot, new: Snapshot) -> int:
    """Return how many partitions have another owner than before, or have one for the first time."""
    if new.shared:
        before, after = old.owned(), new.owned()
        return sum(len({*owned}.difference(before.get(each, ()))) for each, owned in after.items())
    return sum(
        old.owners.get(topic, {}).get(partition) != owner
        for topic, owners in new.owners.items()
        for partition, owner in owners.items()
    )
