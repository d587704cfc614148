"""What the broker counts: plain numbers, added to by the loop's thread, read when metrics are asked for."""

from bisect import bisect_left

from kohort.broker.group.events import Outcome, RebalanceReport

FLUSH_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
LOAD_SECONDS = (0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 30.0)
REBALANCE_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Distribution:
    """How often a duration fell into which bucket, and the sum of all."""

    __slots__ = ("bounds", "counts", "sum_seconds")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # The last one holds what is beyond every bound.
        self.sum_seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_seconds += seconds

    @property
    def count(self) -> int:
        """How many durations were counted."""
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (bound, how many were no longer) for each bound and for `+Inf`, as Prometheus wants it."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((str(bound), float(total)))
        return buckets


class CleaningCounters:
    """What became of old data. The loop's thread only."""

    __slots__ = (
        "deleted_segments",
        "dirty_ratio_max",
        "expired_producers",
        "read_bytes",
        "rounds",
        "seconds",
        "uncleanable",
        "written_bytes",
    )

    def __init__(self) -> None:
        self.rounds = 0
        self.seconds = 0.0
        self.read_bytes = 0
        self.written_bytes = 0
        self.dirty_ratio_max = 0.0
        """Of the dirtiest compacted log, when the cleaner last looked."""
        self.uncleanable = 0
        """Logs that the cleaner leaves alone since it could not read them."""
        self.deleted_segments = 0
        self.expired_producers = 0


class BrokerCounters:
    """Every count since the start. The loop's thread only."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "cleaning",
        "connections_accepted",
        "connections_closed",
        "connections_refused",
        "fetched_bytes",
        "flush_failures",
        "flush_seconds",
        "group_events",
        "group_events_dropped",
        "malformed_requests",
        "members_expired",
        "members_fenced",
        "offset_commits",
        "offset_fetches",
        "offsets_removed",
        "partitions_moved",
        "produced_batches",
        "produced_bytes",
        "produced_records",
        "rebalance_joins",
        "rebalance_pauses",
        "rebalance_syncs",
        "rebalances",
        "rebalances_completed",
        "request_errors",
        "requests",
        "shard_load_seconds_max",
        "shard_loads",
        "stalled_connections",
        "still_seconds",
    )

    def __init__(self) -> None:
        self.requests: dict[int, int] = {}
        """By api key."""
        self.request_errors: dict[int, int] = {}
        """By error code, of answers and of the partitions in them."""
        self.malformed_requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_accepted = 0
        self.connections_closed = 0
        self.connections_refused = 0
        """Over max.connections or max.connections.per.ip."""
        self.stalled_connections = 0
        self.produced_batches = 0
        self.produced_records = 0
        self.produced_bytes = 0
        self.fetched_bytes = 0
        self.flush_seconds = Distribution(FLUSH_SECONDS)
        """How long each group commit took, the sync included."""
        self.flush_failures = 0
        self.cleaning = CleaningCounters()
        self.offset_commits = 0
        """Offsets, not requests: one for each partition."""
        self.offset_fetches = 0
        self.rebalances: dict[str, int] = {}
        """Begun, by cause."""
        self.rebalance_pauses = Distribution(REBALANCE_SECONDS)
        """How long each group stood still."""
        self.rebalance_joins = Distribution(REBALANCE_SECONDS)
        self.rebalance_syncs = Distribution(REBALANCE_SECONDS)
        self.rebalances_completed = 0
        """Those that led to an assignment: not those that began anew, or left nobody."""
        self.partitions_moved = 0
        self.still_seconds = 0.0
        """How long partitions that moved were read by nobody, of all together."""
        self.offsets_removed: dict[str, int] = {}
        """By reason."""
        self.shard_loads = Distribution(LOAD_SECONDS)
        self.shard_load_seconds_max = 0.0
        self.members_expired = 0
        self.members_fenced = 0
        self.group_events = 0
        """Records written to `__group_events`."""
        self.group_events_dropped = 0

    def request_failed(self, error_code: int) -> None:
        """Count an error that a client was answered."""
        self.request_errors[error_code] = self.request_errors.get(error_code, 0) + 1

    def rebalance_started(self, cause: str) -> None:
        """Count a rebalance under the name of its cause."""
        self.rebalances[cause] = self.rebalances.get(cause, 0) + 1

    def rebalance_completed(self, report: RebalanceReport) -> None:
        """Count how long a rebalance took, what it moved, and how long that stood still."""
        self.rebalance_pauses.add(report.still_ms / 1000)
        self.rebalance_joins.add(report.join_ms / 1000)
        if report.outcome is Outcome.STABLE:
            self.rebalance_syncs.add(report.sync_ms / 1000)
            self.rebalances_completed += 1
        self.partitions_moved += len(report.moves)
        self.still_seconds += sum(each.still_ms for each in report.moves) / 1000

    def offsets_went(self, reason: str, count: int) -> None:
        """Count offsets that were let go."""
        self.offsets_removed[reason] = self.offsets_removed.get(reason, 0) + count

    def shard_loaded(self, seconds: float) -> None:
        """Count how long a shard took to replay its log."""
        self.shard_loads.add(seconds)
        self.shard_load_seconds_max = max(self.shard_load_seconds_max, seconds)
