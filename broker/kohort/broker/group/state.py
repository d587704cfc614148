"""The states of groups, and the ways between those of a classic one."""

from enum import Enum


class GroupState(Enum):
    """The state of a group; the values are Kafka's names (Kafka: ClassicGroupState, ConsumerGroupState).

    Empty: no members, perhaps offsets. Accepts simple commits; the first member starts a rebalance.
    PreparingRebalance: joins are parked until every member has joined or timed out; heartbeats
    and syncs get REBALANCE_IN_PROGRESS; commits of the last generation still count.
    CompletingRebalance: the new generation exists; syncs are parked until the leader sends the
    assignment; commits get REBALANCE_IN_PROGRESS.
    Stable: heartbeats, commits and syncs are answered at once.
    Dead: removed.
    Assigning: a consumer group's target is still that of an earlier group epoch.
    Reconciling: not every member of a consumer group has its target assignment.
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
