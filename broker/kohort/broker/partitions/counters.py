"""Counters of records and logs: plain numbers, read for metrics."""

from kohort.broker.runtime.counters import Distribution

FLUSH_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class CleaningCounters:
    """The results of cleaning. The loop's thread only."""

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


class PartitionCounters:
    """Every count since the start. The loop's thread only."""

    __slots__ = (
        "cleaning",
        "fetched_bytes",
        "flush_failures",
        "flush_seconds",
        "produced_batches",
        "produced_bytes",
        "produced_records",
    )

    def __init__(self) -> None:
        self.produced_batches = 0
        self.produced_records = 0
        self.produced_bytes = 0
        self.fetched_bytes = 0
        self.flush_seconds = Distribution(FLUSH_SECONDS)
        """How long each group commit took, the sync included."""
        self.flush_failures = 0
        self.cleaning = CleaningCounters()
