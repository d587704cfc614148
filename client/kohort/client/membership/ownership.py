"""The partitions that the user reads, and the handovers that it has to be told, in order. Pure.

Partitions are handed over in two steps, `begin` and `end`, between which the user's listener runs. A
started handover is returned again until it is ended: a poll may be interrupted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kohort.client.assignors import Owned


@dataclass(frozen=True, slots=True)
class Revoke:
    """Partitions that the member must give up; commits for them still count."""

    partitions: Owned


@dataclass(frozen=True, slots=True)
class Lose:
    """Partitions that are already lost: commits for them don't count any more."""

    partitions: Owned


@dataclass(frozen=True, slots=True)
class Assign:
    """Partitions that the member may read from now on: all that it owns, including the kept ones."""

    partitions: Owned


Handover = Revoke | Lose | Assign


class Ownership:
    """The partitions that the user believes to own, and the handovers that are due."""

    def __init__(self) -> None:
        self.owned: Owned = {}
        self._due: list[Handover] = []
        self._in_hand: Handover | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the user knows everything; cheap, and from any thread."""
        return not self._due and self._in_hand is None

    @property
    def next(self) -> Handover | None:
        """Return the next result of `begin`, without a started one."""
        return self._due[0] if self._due else None

    def begin(self) -> Handover | None:
        """Return the handover for the user; the same again until it is ended."""
        if self._in_hand is None and self._due:
            self._in_hand = self._due.pop(0)
            if isinstance(self._in_hand, Assign):
                self.owned = self._in_hand.partitions
        return self._in_hand

    def end(self) -> None:
        """End the handover that `begin` returned."""
        assert self._in_hand is not None
        if not isinstance(self._in_hand, Assign):
            self.owned = without(self.owned, self._in_hand.partitions)
        self._in_hand = None
        # Partitions revoked meanwhile are neither revoked nor lost a second time.
        self._due = [each for each in map(self._still_owned, self._due) if each is not None]

    def give_up(self, partitions: Owned) -> None:
        """Let the user give these up, and forget an assignment that it has not seen."""
        self._due = [each for each in self._due if isinstance(each, Lose)]
        if not self._due and partitions:
            self._due.append(Revoke(partitions))

    def lose(self) -> None:
        """Lose all owned partitions, and cancel other handovers."""
        self._due = [Lose(self.owned)] if self.owned else []

    def take(self, assignment: Owned) -> Owned:
        """Assign exactly these partitions; return those to revoke first."""
        surplus = without(self.owned, assignment)
        self._due = [Revoke(surplus)] if surplus else []
        self._due.append(Assign(assignment))
        return surplus

    def take_anew(self, assignment: Owned) -> Owned:
        """Do the same if other members may have owned the user's partitions: it loses all of them first."""
        surplus = without(self.owned, assignment)
        self.lose()
        self._due.append(Assign(assignment))
        return surplus

    @property
    def lost(self) -> Owned:
        """Lost partitions that the user may not know yet."""
        for each in (self._in_hand, *self._due):
            if isinstance(each, Lose):
                return each.partitions
        return {}

    @property
    def must_revoke(self) -> bool:
        """Whether the user has something to give up, or is in the middle of a handover."""
        return self._in_hand is not None or any(not isinstance(each, Assign) for each in self._due)

    def _still_owned(self, handover: Handover) -> Handover | None:
        if isinstance(handover, Assign):
            return handover
        partitions = within(handover.partitions, self.owned)
        return replace(handover, partitions=partitions) if partitions else None


def without(these: Owned, those: Owned) -> Owned:
    """Return the partitions of `these` that `those` lack."""
    left = {}
    for topic, partitions in these.items():
        others = frozenset(those.get(topic, ()))
        left[topic] = tuple(each for each in partitions if each not in others)
    return {topic: partitions for topic, partitions in left.items() if partitions}


def within(these: Owned, those: Owned) -> Owned:
    """Return the partitions of `these` that `those` have too."""
    return without(these, without(these, those))


def of_other_topics(owned: Owned, topics: Iterable[str]) -> Owned:
    """Return the partitions of other topics."""
    wanted = frozenset(topics)
    return {topic: partitions for topic, partitions in owned.items() if topic not in wanted}
