"""Which replicas of this broker have not been in sync since its start: until then it is not ready.

Whoever restarts brokers one after the other stops the next one when this one is ready. A replica that falls
behind later makes nobody unready: the broker serves what it leads, and metrics tell of the rest.
"""

from collections.abc import Callable, Iterator
from typing import cast

from kohort.broker.metadata import NO_LEADER, Snapshot

SHOWN = 5
TopicPartition = tuple[str, int]


class CatchingUp:
    """Asked again and again, until everything has been in sync once. The loop's thread only."""

    def __init__(self, snapshot: Callable[[], Snapshot], node_id: int) -> None:
        self._snapshot = snapshot
        self._node_id = node_id
        self._is_over = False

    def reasons(self) -> list[str]:
        """Return in words what is not in sync yet; nothing once all has been."""
        if self._is_over:
            return []
        behind = self._behind()
        self._is_over = not behind
        if not behind:
            return []
        some = ", ".join(f"{topic}-{index}" for topic, index in behind[:SHOWN])
        more = f" and {len(behind) - SHOWN} more" if len(behind) > SHOWN else ""
        return [f"{len(behind)} replicas are not in sync yet: {some}{more}"]

    def _behind(self) -> list[TopicPartition]:
        snapshot = self._snapshot()
        key = CatchingUp, self._node_id
        found = snapshot.memo.get(key)
        if found is None:
            found = snapshot.memo[key] = list(behind(snapshot, self._node_id))
        return cast("list[TopicPartition]", found)


def behind(snapshot: Snapshot, node_id: int) -> Iterator[TopicPartition]:
    """Yield the partitions of which this broker's replica is to be in sync, and is not.

    Where nobody leads it cannot come in sync; one that is being added or removed need not be.
    """
    for topic in snapshot.topics.values():
        for state in topic.partitions:
            if (
                node_id in state.replicas
                and node_id not in state.isr
                and state.leader not in (NO_LEADER, node_id)
                and node_id not in state.adding
                and node_id not in state.removing
            ):
                yield topic.name, state.index
