"""An event that can be waited for again and again."""

import anyio


class Signal:
    """Wakes all waiters; a signal that is set without waiters wakes the next one."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def set(self) -> None:
        """Wake the waiters."""
        self._ready().set()

    async def wait(self, timeout_ms: float | None = None) -> None:
        """Return when the signal is set, or at the timeout."""
        event = self._ready()
        if timeout_ms is None:
            await event.wait()
        else:
            with anyio.move_on_after(timeout_ms / 1000):
                await event.wait()
        if self._event is event and event.is_set():
            self._event = None

    def _ready(self) -> anyio.Event:
        if self._event is None:
            self._event = anyio.Event()
        return self._event
