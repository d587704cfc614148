"""When faults end: each at its own time, or all at once, and none ends another one."""

from collections.abc import Callable, Hashable

from kohort.testing.simulation.kernel import SECOND, Handle, Kernel


class Endings:
    """Faults that go on. Each has a key: a fault with the key of another one takes its place."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._pending: dict[Hashable, tuple[Handle, Callable[[], object]]] = {}

    def end_later(self, seconds: float, key: Hashable, end: Callable[[], object]) -> None:
        """Call `end` after `seconds`, unless another fault takes the place of this one."""
        self._forget(key)
        handle = self._kernel.call_after(int(seconds * SECOND), lambda: self._end(key))
        self._pending[key] = (handle, end)

    def _forget(self, key: Hashable) -> None:
        before = self._pending.pop(key, None)
        if before is not None:
            before[0].cancel()

    def _end(self, key: Hashable) -> None:
        _, end = self._pending.pop(key)
        end()

    def end_all(self) -> None:
        """End what goes on now."""
        while self._pending:
            key, (handle, _) = next(iter(self._pending.items()))
            handle.cancel()
            self._end(key)
