"""Groups to hand partitions out to, as Java reads them and what it prints."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from kohort.client.assignors import ASSIGNORS, Assignment, Owned, Subscription, TopicCounts
from kohort.client.assignors.sticky import sticky_user_data

NONE = "-"
RACKS = ("red", "green", "blue")
NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")


@dataclass(frozen=True, slots=True)
class Case:
    """A group, its topics, and what it is about."""

    name: str
    subscriptions: Mapping[str, Subscription]
    counts: TopicCounts

    def lines(self, assignor: str) -> Iterator[str]:
        """Yield the lines that let Java hand this case's partitions out."""
        for topic, count in self.counts.items():
            racks = self.counts.racks.get(topic, (frozenset(),) * count)
            yield "\t".join(("topic", topic, ";".join(",".join(sorted(each)) or NONE for each in racks)))
        for member_id, each in self.subscriptions.items():
            fields = (
                each.group_instance_id or NONE,
                each.rack_id or NONE,
                str(each.generation_id),
                ",".join(each.topics) or NONE,
                written(each.owned) or NONE,
                each.user_data.hex() if each.user_data else NONE,
            )
            yield "\t".join(("member", member_id, *fields))
        yield f"assign\t{assignor}"
        yield "end"

    def ours(self, assignor: str) -> dict[str, str]:
        """Return what this library hands out, as Java prints it."""
        assignment = ASSIGNORS[assignor].assign(self.subscriptions, self.counts)
        return {member_id: written(owned) for member_id, owned in assignment.items()}


def written(owned: Owned) -> str:
    """Return partitions as the Java program reads and writes them."""
    return ";".join(f"{topic}:{','.join(map(str, owned[topic]))}" for topic in sorted(owned) if owned[topic])


def random_case(seed: int, assignor: str) -> Case:
    """Return a group in some situation: new, grown, shrunk, split over generations, in racks or not."""
    random = Random(f"{seed} {assignor}")
    life = Life(random)
    for generation in range(1, random.randint(1, 5)):
        life.go_on(ASSIGNORS[assignor].assign(life.members, life.topics), generation)
        if random.random() < 0.2:
            life.grow()
    return Case(f"{assignor} of seed {seed}", life.members, life.topics)


class Life:
    """A group that goes through generations: some leave, some come, some miss one and come back."""

    def __init__(self, random: Random) -> None:
        self._random = random
        counts = {f"t{number}": random.randint(1, 12) for number in range(random.randint(1, 6))}
        if random.random() < 0.3:
            counts = dict.fromkeys(counts, random.randint(1, 9))
        self._names = sorted(counts)
        self._in_racks = random.random() < 0.4
        self._alike = random.random() < 0.5
        self._unrest = random.choice((0.0, 0.1, 0.4))
        self.topics = TopicCounts(counts, self._racks(counts) if self._in_racks else {})
        self.members = {self._member_id(): self._newcomer() for _ in range(random.randint(1, 9))}
        self._away: dict[str, Subscription] = {}

    def go_on(self, assignment: Assignment, generation: int) -> None:
        """Let the members have what they were assigned, and what happens happen."""
        chance = self._random.random
        found = {each: self._away.pop(each) for each in sorted(self._away) if chance() < self._unrest}
        for member_id, before in self.members.items():
            owned: Owned = assignment[member_id]
            if len(self.members) > 1 and chance() < 0.15:
                self._away[member_id] = telling(before, before.topics, owned, generation)
            elif chance() < self._unrest:
                found[member_id] = before  # It missed this generation.
            else:
                wishes = self._wishes() if chance() < self._unrest / 4 else before.topics
                found[member_id] = telling(before, wishes, owned, generation)
        while not found or chance() < 0.3:
            found[self._member_id()] = self._newcomer()
        self.members = found

    def grow(self) -> None:
        """Add two partitions to a topic; where there are racks, one without any."""
        topic = self._random.choice(self._names)
        counts = {**self.topics.counts, topic: self.topics[topic] + 2}
        racks = dict(self.topics.racks)
        if topic in racks:
            racks[topic] = (*racks[topic], racks[topic][0], frozenset())
        self.topics = TopicCounts(counts, racks)

    def _racks(self, counts: Mapping[str, int]) -> dict[str, tuple[frozenset[str], ...]]:
        return {topic: tuple(self._some_racks() for _ in range(count)) for topic, count in counts.items()}

    def _some_racks(self) -> frozenset[str]:
        return frozenset(self._random.sample(RACKS, self._random.choice((1, 1, 2, 3))))

    def _member_id(self) -> str:
        client_id = self._random.choice(("a", "consumer", "ß€𝄞"))
        return f"{client_id}-{uuid.UUID(int=self._random.getrandbits(128))}"

    def _wishes(self) -> tuple[str, ...]:
        return tuple(self._random.sample(self._names, self._random.randint(1, len(self._names))))

    def _newcomer(self) -> Subscription:
        return Subscription(
            tuple(self._names) if self._alike else self._wishes(),
            rack_id=self._random.choice((*RACKS, None)) if self._in_racks else None,
            group_instance_id=f"i{self._random.getrandbits(32)}" if self._random.random() < 0.2 else None,
        )


def telling(before: Subscription, wishes: tuple[str, ...], owned: Owned, generation: int) -> Subscription:
    """Return what a member tells that owned something in a generation."""
    return Subscription(
        wishes,
        owned=owned,
        generation_id=generation,
        user_data=sticky_user_data(owned, generation),
        rack_id=before.rack_id,
        group_instance_id=before.group_instance_id,
    )
