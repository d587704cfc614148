"""Assigns partitions to members of a share group: like Kafka's `simple`, with the same goals.

Each partition has a member, and each member a partition, if there are any. If there are more
members than partitions they share them evenly. A member keeps its partitions, as far as that is even.
"""

from collections import defaultdict
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from uuid import UUID

from kohort.broker.group.epochs.partitions import Partitions

Place = tuple[UUID, int]

NAME = "simple"


def assign(
    subscriptions: Mapping[str, frozenset[UUID]],
    ready: Mapping[UUID, frozenset[int]],
    current: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """Return every member's partitions, given the topics that it reads and the partitions that are ready."""
    readers: dict[frozenset[str], list[Place]] = defaultdict(list)
    for topic_id in sorted(ready):
        members = frozenset(each for each, topics in subscriptions.items() if topic_id in topics)
        if members:
            readers[members] += [(topic_id, index) for index in sorted(ready[topic_id])]
    assigned: dict[str, set[Place]] = {member_id: set() for member_id in sorted(subscriptions)}
    for members, places in readers.items():  # Topics that the same members read are assigned together.
        _share_out(assigned, sorted(members), places, current)
    return {member_id: _by_topic(places) for member_id, places in assigned.items()}


def _share_out(
    assigned: dict[str, set[Place]],
    members: list[str],
    places: list[Place],
    current: Mapping[str, Partitions],
) -> None:
    """Give each position as many of the members as needed for everybody to have one."""
    sharers = -(-len(members) // len(places))
    # So many of them have one more than the fair share.
    fair, more = divmod(len(places) * sharers, len(members))
    had: dict[Place, list[str]] = defaultdict(list)
    for member_id in members:
        for topic_id, indexes in current.get(member_id, {}).items():
            for index in indexes:
                had[topic_id, index].append(member_id)
    kept: dict[str, int] = dict.fromkeys(members, 0)
    lacking: dict[Place, int] = {}
    for place in places:
        lacking[place] = sharers
        for member_id in had.get(place, ()):
            if not lacking[place]:
                break
            if kept[member_id] < fair or (kept[member_id] == fair and more > 0):
                more -= kept[member_id] == fair
                kept[member_id] += 1
                lacking[place] -= 1
                assigned[member_id].add(place)
    least = [(len(assigned[each]), each) for each in members]
    heapify(least)
    for place in places:
        passed: list[tuple[int, str]] = []
        while lacking[place] and least:
            load, member_id = heappop(least)
            if place in assigned[member_id]:
                passed.append((load, member_id))
                continue
            assigned[member_id].add(place)
            passed.append((load + 1, member_id))
            lacking[place] -= 1
        for each in passed:
            heappush(least, each)


def _by_topic(places: set[Place]) -> Partitions:
    found: dict[UUID, set[int]] = defaultdict(set)
    for topic_id, index in places:
        found[topic_id].add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
