"""Counters of groups: plain numbers, read for metrics."""

from kohort.broker.explain.events import RebalanceReport
from kohort.broker.group.rebalance_facts import Outcome
from kohort.broker.runtime.counters import Distribution

LOAD_SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 30.0)
REBALANCE_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class GroupCounters:
    """Every count since the start. The loop's thread only."""

    __slots__ = (
        "dead_letters",
        "dead_letters_missing",
        "group_events",
        "group_events_dropped",
        "members_expired",
        "members_fenced",
        "offset_commits",
        "offset_fetches",
        "offsets_removed",
        "partitions_moved",
        "rebalance_joins",
        "rebalance_pauses",
        "rebalance_syncs",
        "rebalances",
        "rebalances_completed",
        "shard_load_seconds_max",
        "shard_loads",
        "still_seconds",
    )

    def __init__(self) -> None:
        self.offset_commits = 0
        """Offsets, not requests: one for each partition."""
        self.offset_fetches = 0
        self.rebalances: dict[str, int] = {}
        """Begun, by cause."""
        self.rebalance_pauses = Distribution(REBALANCE_SECONDS)
        """The pauses of each group."""
        self.rebalance_joins = Distribution(REBALANCE_SECONDS)
        self.rebalance_syncs = Distribution(REBALANCE_SECONDS)
        self.rebalances_completed = 0
        """Rebalances that led to an assignment: not those that restarted, or left no member."""
        self.partitions_moved = 0
        self.still_seconds = 0.0
        """The total time in which moved partitions had no reader."""
        self.offsets_removed: dict[str, int] = {}
        """By reason."""
        self.shard_loads = Distribution(LOAD_SECONDS)
        self.shard_load_seconds_max = 0.0
        self.members_expired = 0
        self.members_fenced = 0
        self.dead_letters = 0
        """Dead letters written for records that share groups have archived."""
        self.dead_letters_missing = 0
        """Archived records without a dead letter, although they should have had one."""
        self.group_events = 0
        """Records written to `__group_events`."""
        self.group_events_dropped = 0

    def rebalance_started(self, cause: str) -> None:
        """Count a rebalance under the name of its cause."""
        self.rebalances[cause] = self.rebalances.get(cause, 0) + 1

    def rebalance_completed(self, report: RebalanceReport) -> None:
        """Count the duration of a rebalance, its moved partitions, and their pauses."""
        self.rebalance_pauses.add(report.still_ms / 1000)
        self.rebalance_joins.add(report.join_ms / 1000)
        if report.outcome is Outcome.STABLE:
            self.rebalance_syncs.add(report.sync_ms / 1000)
            self.rebalances_completed += 1
        self.partitions_moved += len(report.moves)
        self.still_seconds += sum(each.still_ms for each in report.moves) / 1000

    def offsets_went(self, reason: str, count: int) -> None:
        """Count removed offsets."""
        self.offsets_removed[reason] = self.offsets_removed.get(reason, 0) + count

    def shard_loaded(self, seconds: float) -> None:
        """Count how long a shard took to replay its log."""
        self.shard_loads.add(seconds)
        self.shard_load_seconds_max = max(self.shard_load_seconds_max, seconds)
