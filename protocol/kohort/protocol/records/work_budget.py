"""Limits the work of checking batches: a large check runs in a worker, and a huge batch is refused.

The header does not show the cost of a batch: a few hundred bytes may hold millions of records or headers. So
the check counts its steps, and stops when the budget is spent.
"""

from collections.abc import Callable

from kohort.protocol.errors import WireError

MAX_HEADERS_PER_RECORD = 10_000
MAX_STEPS = 1_000_000  # Records and headers of one batch; a step takes 1 to 3 us.
MAX_DECOMPRESSED_BATCH_BYTES = 64 * 1024 * 1024  # of one batch, decompressed
QUICK_STEPS = 8_000
QUICK_DECOMPRESSED_BYTES = 2 * 1024 * 1024
QUICK_COMPRESSION_BYTES = 128 * 1024  # to be recompressed; gzip takes 5 ms
SLICE_STEPS = 256  # between two pauses: half a millisecond


class WorkBudgetExceeded(WireError):
    """The check of a batch needs more work than allowed."""


class WorkBudget:
    """The remaining steps (one per record or header), and the remaining bytes to decompress and to compress.

    `pause` is called after every slice of steps: in a worker it lets the thread of the event loop run.
    """

    __slots__ = ("_pause", "compression_bytes", "decompressed_bytes", "steps")

    def __init__(
        self,
        steps: int,
        decompressed_bytes: int,
        compression_bytes: int,
        pause: Callable[[], object] | None = None,
    ) -> None:
        self.steps = steps
        self.decompressed_bytes = decompressed_bytes
        self.compression_bytes = compression_bytes
        self._pause = pause

    @classmethod
    def quick(cls) -> "WorkBudget":
        """Return the budget of one request in the event loop: about 15 ms."""
        return cls(QUICK_STEPS, QUICK_DECOMPRESSED_BYTES, QUICK_COMPRESSION_BYTES)

    @classmethod
    def full(cls, pause: Callable[[], object] | None = None) -> "WorkBudget":
        """Return the budget of one batch in a worker: a few seconds, and 64 MiB."""
        return cls(MAX_STEPS, MAX_DECOMPRESSED_BATCH_BYTES, MAX_DECOMPRESSED_BATCH_BYTES, pause)

    def next_slice(self) -> int:
        """Return the number of steps until the next call. Raises: WorkBudgetExceeded."""
        if self._pause is not None:
            self._pause()
        if self.steps <= 0:
            raise WorkBudgetExceeded(f"more than {MAX_STEPS} records and headers in a batch")
        granted = min(SLICE_STEPS, self.steps)
        self.steps -= granted
        return granted

    def give_back(self, steps: int) -> None:
        """Return unused steps of a slice. A negative number is spent in addition."""
        self.steps += steps

    def spend_decompressed(self, count: int) -> None:
        """Spend `count` decompressed bytes. Raises: WorkBudgetExceeded."""
        self.decompressed_bytes -= count
        if self.decompressed_bytes < 0:
            raise WorkBudgetExceeded(
                f"a batch of more than {MAX_DECOMPRESSED_BATCH_BYTES} bytes when decompressed"
            )

    def spend_compression(self, count: int) -> None:
        """Spend `count` bytes that are to be compressed. Raises: WorkBudgetExceeded."""
        self.compression_bytes -= count
        if self.compression_bytes < 0:
            raise WorkBudgetExceeded(
                f"a batch of more than {MAX_DECOMPRESSED_BATCH_BYTES} bytes to be compressed"
            )
