"""The states of groups, and the ways between those of a classic one."""

from enum import Enum


class GroupState(Enum):
    """Where a group stands; the values are Kafka's words (Kafka: ClassicGroupState, ConsumerGroupState).

    Empty: no members, perhaps offsets. Takes simple commits; whoever joins starts the first rebalance.
    PreparingRebalance: joins are parked until every member has joined or run out of time; heartbeats
    and syncs are told REBALANCE_IN_PROGRESS; commits of the last generation still count.
    CompletingRebalance: the new generation exists; syncs are parked until the leader brings the
    assignment; commits are told REBALANCE_IN_PROGRESS.
    Stable: heartbeats, commits and syncs are answered at once.
    Dead: removed.
    Assigning: a consumer group's target is still that of an earlier group epoch.
    Reconciling: not every member of a consumer group has what the target gives it.
    NotReady: a streams group's topics are not all there, or do not fit its topology.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
    GroupState.ASSIGNING: frozenset(),  # A consumer group derives its state.
    GroupState.RECONCILING: frozenset(),
    GroupState.NOT_READY: frozenset(),
}
