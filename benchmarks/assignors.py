"""How long the assignors take to hand 10,000 partitions out to 1,000 members."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from random import Random

from kohort.client.assignors import ASSIGNORS, Assignment, Subscription, TopicCounts
from kohort.client.assignors.sticky import sticky_user_data

MEMBERS = 1_000
PARTITIONS = 10_000
TOPICS = 100
REPLACED = MEMBERS // 5

Group = Mapping[str, Subscription]


def group(random: Random, topics: list[str], *, alike: bool) -> dict[str, Subscription]:
    """Return members in three racks that subscribe to all topics, or each to some."""
    return {
        f"consumer-{number:04}-{random.getrandbits(128):032x}": Subscription(
            tuple(topics if alike else random.sample(topics, random.randint(1, len(topics)))),
            rack_id="abc"[number % 3],
        )
        for number in range(MEMBERS)
    }


def later(before: Group, assignment: Assignment, newcomers: Group) -> dict[str, Subscription]:
    """Return the group after every fifth member was replaced."""
    stayed = list(before)[: MEMBERS - REPLACED]
    found = {
        each: Subscription(
            before[each].topics,
            assignment[each],
            1,
            sticky_user_data(assignment[each], 1),
            before[each].rack_id,
        )
        for each in stayed
    }
    return found | dict(list(newcomers.items())[:REPLACED])


def situations(name: str) -> Iterator[tuple[str, Group, TopicCounts]]:
    """Yield what an assignor meets."""
    random = Random(1)
    topics = [f"topic-{number:03}" for number in range(TOPICS)]
    counts = dict.fromkeys(topics, PARTITIONS // TOPICS)
    racks = {
        topic: tuple(frozenset(random.sample("abc", 2)) for _ in range(counts[topic])) for topic in topics
    }
    for alike in (True, False):
        wishes = "the same wishes" if alike else "different wishes"
        members = group(random, topics, alike=alike)
        yield wishes, members, TopicCounts(counts)
        yield f"{wishes}, in racks", members, TopicCounts(counts, racks)
        before = ASSIGNORS[name].assign(members, counts)
        after = later(members, before, group(random, topics, alike=alike))
        yield f"{wishes}, {REPLACED} replaced", after, TopicCounts(counts)


def main() -> None:
    """Print a line for each assignor in each situation."""
    print(f"{MEMBERS:,} members, {PARTITIONS:,} partitions of {TOPICS} topics")
    for name in ASSIGNORS:
        for situation, members, counts in situations(name):
            began = time.perf_counter()
            ASSIGNORS[name].assign(members, counts)
            print(f"{name:20} {situation:32} {(time.perf_counter() - began) * 1000:6.0f} ms")


if __name__ == "__main__":
    main()
