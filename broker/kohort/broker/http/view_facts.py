"""The parts of a broker, as far as the HTTP pages show them."""

from collections.abc import Sequence
from typing import Protocol


class BatchesFacts(Protocol):
    """Where batches lie in a file."""

    def read(self) -> bytes:
        """Return them. Raises: OSError."""
        ...


class LogFacts(Protocol):
    """A partition's log."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def size_bytes(self) -> int:
        """The size of all its segments."""
        ...

    def read(self, offset: int, max_bytes: int, end_offset: int) -> BatchesFacts:
        """Return where batches lie, as `PartitionLog.read` does. Raises: StorageError."""
        ...

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """Return offset, timestamp and leader epoch of the first record as new. Raises: StorageError."""
        ...


class PartitionFacts(Protocol):
    """A partition; its log is there once it was opened."""

    @property
    def topic(self) -> str:
        """The topic's name."""
        ...

    @property
    def index(self) -> int:
        """The number of the partition in its topic."""
        ...

    @property
    def opened(self) -> bool:
        """Whether the log has been opened: that happens at the first use."""
        ...

    @property
    def offline(self) -> Exception | None:
        """Why the partition does not serve, if so."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset before which readers see everything."""
        ...

    @property
    def log(self) -> LogFacts:
        """The log."""
        ...


class QuotaUse(Protocol):
    """How much of a quota its clients use."""

    @property
    def key(self) -> str:
        """Which quota, by Kafka's name."""
        ...

    @property
    def user(self) -> str:
        """Whose; empty where it is a client id's."""
        ...

    @property
    def client_id(self) -> str:
        """Whose; empty where it is a user's."""
        ...

    @property
    def value(self) -> float:
        """The rate a second; for created and deleted partitions, how many are still allowed."""
        ...

    @property
    def throttle_ms(self) -> int:
        """The throttle time of a client that is waiting now."""
        ...


class SessionFacts(Protocol):
    """The incremental fetch sessions."""

    evictions: int
    """How many have made room for others."""

    def __len__(self) -> int:
        """Return how many are kept."""
        ...


class TaskFacts(Protocol):
    """A background task, or the loop."""

    name: str
    restarts: int
    """How often it was started again."""

    def reason(self) -> str | None:
        """Return what is wrong with it, in words."""
        ...


class DiskFacts(Protocol):
    """The disk under the data folder, once it was looked at."""

    free_bytes: int | None
    total_bytes: int | None


class LoopFacts(Protocol):
    """How late the loop is."""

    @property
    def seconds_max(self) -> float:
        """The most in the last minute."""
        ...


class HealthFacts(Protocol):
    """How the broker's parts fare."""

    @property
    def tasks(self) -> Sequence[TaskFacts]:
        """Every background task, and the loop."""
        ...

    @property
    def disk(self) -> DiskFacts:
        """The disk."""
        ...

    @property
    def loop_lag(self) -> LoopFacts:
        """The loop."""
        ...

    def reasons(self) -> list[str]:
        """Return in words what is wrong; nothing where all is well."""
        ...
