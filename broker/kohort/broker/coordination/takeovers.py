"""Fail-overs of group coordinators to this broker: from which broker, and for how long there was none."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from kohort.broker.group.events import Event, GroupLoaded
from kohort.broker.metadata import NO_LEADER, OFFSETS_TOPIC, Snapshot
from kohort.broker.runtime.clock import Clock


class Takeover(NamedTuple):
    """A partition of `__consumer_offsets` that another broker led before."""

    former_node_id: int
    why: str
    since_ms: int


class Takeovers:
    """The partitions of `__consumer_offsets` that moved to this broker. The loop's thread only."""

    def __init__(self, node_id: int, clock: Clock, last_answer_ms: Callable[[int], int | None]) -> None:
        """`last_answer_ms` returns when a broker that this one followed answered last, or None."""
        self._node_id = node_id
        self._clock = clock
        self._last_answer_ms = last_answer_ms
        self._leaders: dict[int, int] = {}  # The last leader of each partition, also while it has none.
        self._taken: dict[int, Takeover] = {}

    def follow(self, before: Snapshot, after: Snapshot) -> None:
        """Note which partitions have moved here."""
        if not self._leaders:
            self._learn(before)
        for index, leader in _leaders(after):
            former = self._leaders.get(index, self._node_id)
            if leader == self._node_id and former != leader:
                self._taken[index] = self._from(former, after)
        self._learn(after)

    def _learn(self, snapshot: Snapshot) -> None:
        self._leaders.update((index, leader) for index, leader in _leaders(snapshot) if leader != NO_LEADER)

    def _from(self, former: int, now: Snapshot) -> Takeover:
        now_ms = self._clock.now_ms()
        broker = now.broker(former)
        if broker is None:
            last_answer_ms = self._last_answer_ms(former)
            return Takeover(former, "is gone", now_ms if last_answer_ms is None else last_answer_ms)
        why = "stops" if broker.is_draining else "is drained" if broker.is_drained else "handed it over"
        return Takeover(former, why, now_ms)

    def pass_on(self, index: int, note: Callable[[Event], None], event: Event) -> None:
        """Pass an event on; add the former broker to one of a loaded group."""
        if isinstance(event, GroupLoaded):
            event = replace(event, node_id=self._node_id)
            taken = self._taken.get(index)
            if taken is not None:
                silent_ms = max(1, self._clock.now_ms() - taken.since_ms)
                event = replace(
                    event, former_node_id=taken.former_node_id, why=taken.why, silent_ms=silent_ms
                )
        note(event)

    def loaded(self, index: int) -> None:
        """Note that the groups of a partition are loaded: a later load of them is no fail-over."""
        self._taken.pop(index, None)


def _leaders(snapshot: Snapshot) -> list[tuple[int, int]]:
    topic = snapshot.topics.get(OFFSETS_TOPIC)
    return [] if topic is None else [(each.index, each.leader) for each in topic.partitions]
