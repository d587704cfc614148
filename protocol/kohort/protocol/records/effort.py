"""How much work a look at batches may be: what is more is not for the loop, or not to be taken at all.

What a batch costs does not show in its header: a few hundred bytes may be millions of records or headers.
So whoever checks one counts while it goes on, and gives up where the count is spent.
"""

from collections.abc import Callable

from kohort.protocol.errors import WireError

MAX_HEADERS_PER_RECORD = 10_000
MAX_STEPS = 1_000_000  # Records and headers of one batch; a step takes 1 to 3 us.
MAX_PLAIN_BYTES = 64 * 1024 * 1024  # of one batch, decompressed
QUICK_STEPS = 8_000
QUICK_PLAIN_BYTES = 2 * 1024 * 1024
QUICK_COMPRESSION_BYTES = 128 * 1024  # to be compressed anew; 5 ms by gzip
SLICE_STEPS = 256  # Between two pauses: half a millisecond.


class EffortExceeded(WireError):
    """The batches are more work than was allowed."""


class Effort:
    """What may still be spent: steps, a record or a header each, and bytes to decompress and to compress.

    `pause` is called every so often: a worker's way to let the loop's thread run.
    """

    __slots__ = ("_pause", "compression_bytes", "plain_bytes", "steps")

    def __init__(
        self,
        steps: int,
        plain_bytes: int,
        compression_bytes: int,
        pause: Callable[[], object] | None = None,
    ) -> None:
        self.steps = steps
        self.plain_bytes = plain_bytes
        self.compression_bytes = compression_bytes
        self._pause = pause

    @classmethod
    def quick(cls) -> "Effort":
        """Return what a loop may spend on one request: some fifteen milliseconds at most."""
        return cls(QUICK_STEPS, QUICK_PLAIN_BYTES, QUICK_COMPRESSION_BYTES)

    @classmethod
    def full(cls, pause: Callable[[], object] | None = None) -> "Effort":
        """Return what one batch may cost at all: some seconds, and 64 MiB."""
        return cls(MAX_STEPS, MAX_PLAIN_BYTES, MAX_PLAIN_BYTES, pause)

    def next_slice(self) -> int:
        """Return how many steps may be made before the next call. Raises: EffortExceeded."""
        if self._pause is not None:
            self._pause()
        if self.steps <= 0:
            raise EffortExceeded(f"more than {MAX_STEPS} records and headers in a batch")
        granted = min(SLICE_STEPS, self.steps)
        self.steps -= granted
        return granted

    def give_back(self, steps: int) -> None:
        """Take back what was granted and not spent; below zero is what was spent beyond it."""
        self.steps += steps

    def spend_plain(self, count: int) -> None:
        """Take note of bytes that came of decompression. Raises: EffortExceeded."""
        self.plain_bytes -= count
        if self.plain_bytes < 0:
            raise EffortExceeded(f"a batch of more than {MAX_PLAIN_BYTES} bytes when decompressed")

    def spend_compression(self, count: int) -> None:
        """Take note of bytes that are to be compressed. Raises: EffortExceeded."""
        self.compression_bytes -= count
        if self.compression_bytes < 0:
            raise EffortExceeded(f"a batch of more than {MAX_PLAIN_BYTES} bytes to be compressed")
