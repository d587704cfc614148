"""Records as a share group has them, by what Apache Kafka has answered: in whose hands, how often by now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.differential.told import Rendered

BATCHES = {"work": (1, 5, 3, 10, 1, 1, 2, 7, 20, 10), "more": (2, 6)}
"""How many records each batch of a topic has; each topic has one partition."""
JOINING = 0
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
FREE, DONE = "free", "done"


@dataclass
class Record:
    """A record as the group has it: whose it is, how often it was handed out."""

    owner: str = FREE
    count: int = 0


@dataclass
class Member:
    """A member as its own process sees it."""

    member_id: str
    client_id: str
    topics: list[str]
    epoch: int = JOINING
    is_in: bool = False
    session: int | None = None
    """The number of its next request; None without a session."""
    places: set[str] = field(default_factory=set)


@dataclass
class Words:
    """What is said of offsets beside each other."""

    topic: str
    first: int
    last: int
    kinds: tuple[int, ...]


class Hands:
    """Who holds which record of the group."""

    def __init__(self, random: Random, limit: int) -> None:
        self._random = random
        self._limit = limit
        self._records: dict[str, dict[int, Record]] = {}
        self.acquired_s: float | None = None
        """When the first of those was handed out that somebody holds."""
        for topic in BATCHES:
            self.begin(topic, 0)

    def begin(self, topic: str, offset: int) -> None:
        """Let all from this offset on be nobody's."""
        if topic in BATCHES:
            end = sum(BATCHES[topic])
            self._records[topic] = {each: Record() for each in range(offset, end)}

    def has_free(self, topic: str) -> bool:
        """Return whether there is something to hand out."""
        return any(each.owner == FREE for each in self._records[topic].values())

    def has_returned(self, topic: str) -> bool:
        """Return whether something of that was handed out before."""
        return any(each.owner == FREE and each.count for each in self._records[topic].values())

    def is_held(self) -> bool:
        """Return whether somebody holds something."""
        return any(
            each.owner not in (FREE, DONE) for records in self._records.values() for each in records.values()
        )

    def acquired(self, topic: str, acquired: Rendered, member: Member) -> None:
        """Let the member hold these."""
        for offset in range(acquired["first_offset"], acquired["last_offset"] + 1):
            record = self._records[topic].setdefault(offset, Record())
            record.owner, record.count = member.member_id, acquired["delivery_count"]
            if self.acquired_s is None:
                self.acquired_s = time.monotonic()

    def take_words(self, topic: str, member: Member, said: Sequence[Words]) -> None:
        """Let go of what the member was heard on."""
        for words in said:
            if words.topic != topic:
                continue
            for offset in range(words.first, words.last + 1):
                record = self._records[topic].get(offset)
                if record is None or record.owner != member.member_id or not words.kinds:
                    continue
                kind = words.kinds[min(offset - words.first, len(words.kinds) - 1)]
                if kind == RENEW:
                    continue
                comes_back = kind == RELEASE and record.count < self._limit
                record.owner = FREE if comes_back else DONE
        if not self.is_held():
            self.acquired_s = None

    def give_back(self, member: Member) -> None:
        """Take back what the member holds of what it fetches: of the rest Kafka does when locks end."""
        for topic in member.places:
            for record in self._records[topic].values():
                if record.owner == member.member_id:
                    record.owner = FREE if record.count < self._limit else DONE

    def words(self, member: Member) -> list[Words]:
        """Return what a member says of some of what it holds."""
        random = self._random
        topic = random.choice(sorted(BATCHES))
        held = [at for at, each in sorted(self._records[topic].items()) if each.owner == member.member_id]
        if not held:
            return []
        first = random.choice((held[0], random.choice(held)))
        last = first
        while last + 1 in held and random.random() < 0.8:
            last += 1
        kinds = (ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW)
        if random.random() < 0.4:
            return [
                Words(topic, first, last, tuple(random.choice(kinds[:6]) for _ in range(first, last + 1)))
            ]
        return [Words(topic, first, last, (random.choice(kinds),))]

    def let_locks_end(self) -> None:
        """Take back all that somebody holds."""
        self.acquired_s = None
        for records in self._records.values():
            for record in records.values():
                if record.owner not in (FREE, DONE):
                    record.owner = DONE if record.count >= self._limit else FREE

    def held_by(self, member: Member, topic: str, offsets: range) -> bool:
        """Return whether the member holds one of these."""
        held = self._records.get(topic, {})
        return any(each in held and held[each].owner == member.member_id for each in offsets)
