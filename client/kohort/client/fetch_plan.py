"""Plans the next requests, so that every partition has records ready. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kohort.client.positions import PartitionState
from kohort.client.values import PartitionInfo, TopicPartition

CHUNKS_AHEAD = 2  # Per partition: the chunk that the user reads, and the next.

FindLeader = Callable[[TopicPartition], PartitionInfo | None]


@dataclass(slots=True)
class FetchPlan:
    """Partitions by what they need.

    A node is crowded when a partition there has as much as it may buffer: a fetch that waits for the
    others would hold that one up, too.
    """

    by_node: dict[int, list[PartitionState]] = field(default_factory=dict)
    crowded: set[int] = field(default_factory=set)
    uncommitted: list[PartitionState] = field(default_factory=list)  # Is there a committed offset?
    to_look_up: dict[int, list[PartitionState]] = field(default_factory=dict)  # By node: where is the end?
    unsure: dict[int, list[PartitionState]] = field(default_factory=dict)  # Does it have other records?
    without_leader: list[PartitionState] = field(default_factory=list)
    next_at_ms: float | None = None  # When something that waits now has its turn.

    def wait_until(self, at_ms: float) -> None:
        """Look again at this time."""
        self.next_at_ms = at_ms if self.next_at_ms is None else min(self.next_at_ms, at_ms)


def plan_fetches(
    states: Iterable[PartitionState], find_leader: FindLeader, nodes: Iterable[int], now_ms: float
) -> FetchPlan:
    """Return what each partition needs; for fetches those first that have waited longest for data."""
    plan = FetchPlan()
    known = frozenset(nodes)
    for state in states:
        _place(plan, state, find_leader, known, now_ms)
    for waiting in plan.by_node.values():
        waiting.sort(key=lambda state: state.served)
    return plan


def _place(
    plan: FetchPlan, state: PartitionState, find_leader: FindLeader, nodes: frozenset[int], now_ms: float
) -> None:
    if state.retry_at_ms > now_ms:
        plan.wait_until(state.retry_at_ms)
        return
    if state.position is None and state.stand.fetching.chunks_ahead:
        return  # There is an error that the user has to see first.
    if state.needs_commit:
        plan.uncommitted.append(state)
        return
    leader = find_leader(state.partition)
    if leader is None:
        plan.without_leader.append(state)
    elif state.position is None:
        plan.to_look_up.setdefault(leader.leader, []).append(state)
    elif state.needs_validation(leader.leader_epoch):
        plan.unsure.setdefault(leader.leader, []).append(state)
    elif state.is_wanted and not state.paused:
        if state.read_replica not in nodes or state.read_replica_until_ms <= now_ms:
            state.forget_replica()
        node_id = leader.leader if state.read_replica is None else state.read_replica
        if state.stand.fetching.chunks_ahead >= CHUNKS_AHEAD:
            plan.crowded.add(node_id)
        else:
            state.reads_from(leader.leader_epoch)
            plan.by_node.setdefault(node_id, []).append(state)
