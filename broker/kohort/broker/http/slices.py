"""Long work on the loop, in slices: other tasks have the loop after each."""

import trio


class Slices:
    """Counts the work of one task since others had the loop."""

    __slots__ = ("_done", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._done = 0

    async def did(self, work: int = 1) -> None:
        """Count work that is done, and give others the loop after a slice of it."""
        self._done += work
        if self._done >= self._size:
            self._done = 0
            await trio.lowlevel.checkpoint()
