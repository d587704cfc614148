"""Assignors: `uniform` balances numbers, `range` assigns neighbours (KIP-848).

Both keep members' partitions, as far as their rule allows: a moved one has to be revoked first.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from uuid import UUID

from kohort.broker.group.epochs.partitions import Partitions

Subscriptions = Mapping[str, frozenset[UUID]]
"""The ids of the topics that each member reads, by its id; only topics that exist."""
Counts = Mapping[UUID, int]
"""How many partitions each of these topics has."""
Assignor = Callable[[Subscriptions, Counts, Mapping[str, Partitions]], dict[str, Partitions]]

Building = dict[UUID, set[int]]
ROUNDS_MAX = 100


def uniform(
    members: Subscriptions, counts: Counts, current: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """Return an assignment in which members with the same topics have the same number, give or take one."""
    subscriptions = set(members.values())
    if len(subscriptions) <= 1:
        return _uniform_for_equals(members, counts, current)
    return _uniform_for_all(members, counts, current)


def by_range(
    members: Subscriptions, counts: Counts, _current: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """Return an assignment in which each member has neighbouring partitions, the same ones of each topic.

    Members are taken in order; the first ones get one more if the division has a rest.
    """
    readers: dict[UUID, list[str]] = {}
    for member_id, topics in members.items():
        for topic_id in topics:
            readers.setdefault(topic_id, []).append(member_id)
    given: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, member_ids in readers.items():
        each, more = divmod(counts[topic_id], len(member_ids))
        begin = 0
        for position, member_id in enumerate(member_ids):
            end = begin + each + (position < more)
            if end > begin:
                given[member_id][topic_id] = frozenset(range(begin, end))
            begin = end
    return dict(given)


ASSIGNORS: dict[str, Assignor] = {"uniform": uniform, "range": by_range}
"""Every assignor by the name that members and operators call it by."""


def _uniform_for_equals(
    members: Subscriptions, counts: Counts, current: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """All members subscribe to the same topics.

    Each keeps its partitions up to its share, others fill theirs.
    """
    topics = sorted(next(iter(members.values()), frozenset()))
    each, more = divmod(sum(counts[topic_id] for topic_id in topics), max(len(members), 1))
    valid = {
        member_id: _valid(current.get(member_id, {}), members[member_id], counts) for member_id in members
    }
    # Members with most partitions keep the share that is one larger: then the fewest move.
    sizes = {member_id: _size(kept) for member_id, kept in valid.items()}
    larger = set(sorted(members, key=lambda member_id: -sizes[member_id])[:more])
    kept: dict[str, Building] = {}
    taken: dict[UUID, set[int]] = {topic_id: set() for topic_id in topics}
    room: list[tuple[str, int]] = []
    for member_id, has in valid.items():
        share = each + (member_id in larger)
        kept[member_id] = _first(has, share, taken)
        if sizes[member_id] < share:
            room.append((member_id, share - _size(kept[member_id])))
    free = [
        (topic_id, index)
        for topic_id in topics
        for index in range(counts[topic_id])
        if index not in taken[topic_id]
    ]
    _fill(kept, room, free)
    return _frozen(kept)


def _first(has: Partitions, limit: int, taken: dict[UUID, set[int]]) -> Building:
    """Return the first `limit` of these partitions without an owner, and count them as taken."""
    first: Building = {}
    for topic_id in sorted(has):
        for index in sorted(has[topic_id]):
            if limit <= 0:
                return first
            if index not in taken[topic_id]:
                taken[topic_id].add(index)
                first.setdefault(topic_id, set()).add(index)
                limit -= 1
    return first


def _fill(
    kept: dict[str, Building], room: Sequence[tuple[str, int]], free: Sequence[tuple[UUID, int]]
) -> None:
    position = 0
    for member_id, number in room:
        for topic_id, index in free[position : position + number]:
            kept[member_id].setdefault(topic_id, set()).add(index)
        position += number
    assert position >= len(free), "partitions were left unassigned"


def _uniform_for_all(
    members: Subscriptions, counts: Counts, current: Mapping[str, Partitions]
) -> dict[str, Partitions]:
    """Members subscribe to different topics.

    Free partitions go to the least loaded, then loads are balanced.
    """
    readers: dict[UUID, list[str]] = {}
    for member_id, topics in members.items():
        for topic_id in topics:
            readers.setdefault(topic_id, []).append(member_id)
    taken: dict[UUID, set[int]] = {topic_id: set() for topic_id in readers}
    kept = {
        member_id: _first(
            _valid(current.get(member_id, {}), topics, counts), sum(map(counts.__getitem__, topics)), taken
        )
        for member_id, topics in members.items()
    }
    loads = {member_id: _size(has) for member_id, has in kept.items()}
    order = sorted(readers, key=lambda topic_id: (len(readers[topic_id]), topic_id))
    for topic_id in order:  # Topics with few readers first: the others can go to more.
        heap = [
            (loads[member_id], position, member_id) for position, member_id in enumerate(readers[topic_id])
        ]
        heapify(heap)
        for index in range(counts[topic_id]):
            if index not in taken[topic_id]:
                load, position, member_id = heappop(heap)
                kept[member_id].setdefault(topic_id, set()).add(index)
                loads[member_id] = load + 1
                heappush(heap, (load + 1, position, member_id))
    for _ in range(ROUNDS_MAX):
        moves = [_even_out(topic_id, readers[topic_id], kept, loads) for topic_id in order]
        if not any(moves):
            break
    return _frozen(kept)


def _even_out(
    topic_id: UUID, readers: Sequence[str], kept: dict[str, Building], loads: dict[str, int]
) -> bool:
    """Move partitions of one topic from the most to the least loaded member; return whether any moved."""
    moved = False
    while True:
        givers = [member_id for member_id in readers if kept[member_id].get(topic_id)]
        if not givers:
            return moved
        most = max(givers, key=loads.__getitem__)
        least = min(readers, key=loads.__getitem__)
        if loads[most] - loads[least] < 2:
            return moved
        indexes = kept[most][topic_id]
        index = max(indexes)
        indexes.discard(index)
        if not indexes:
            del kept[most][topic_id]
        kept[least].setdefault(topic_id, set()).add(index)
        loads[most] -= 1
        loads[least] += 1
        moved = True


def _valid(has: Partitions, topics: frozenset[UUID], counts: Counts) -> Partitions:
    """Return the partitions of `has` that exist and whose topics the member subscribes to."""
    valid = {}
    for topic_id, indexes in has.items():
        if topic_id in topics:
            count = counts[topic_id]
            existing = indexes if max(indexes) < count else frozenset(i for i in indexes if i < count)
            if existing:
                valid[topic_id] = existing
    return valid


def _size(partitions: Mapping[UUID, frozenset[int]] | Building) -> int:
    return sum(map(len, partitions.values()))


def _frozen(kept: Mapping[str, Building]) -> dict[str, Partitions]:
    return {
        member_id: {topic_id: frozenset(indexes) for topic_id, indexes in has.items() if indexes}
        for member_id, has in kept.items()
    }
