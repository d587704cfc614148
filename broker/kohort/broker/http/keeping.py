"""Pages that are made once for concurrent requests, and kept for a second."""

from collections.abc import Awaitable, Callable

import msgspec
import trio

FRESH_SECONDS = 1.0
KEPT_MAX = 32

Make = Callable[[], Awaitable[object]]


class KeptPages:
    """The pages that were made recently, as JSON, by a key."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, bytes]] = {}
        self._making: dict[str, trio.Event] = {}

    async def made(self, key: str, make: Make) -> bytes:
        """Return the page as JSON, at most one second old. Concurrent requests for the same key share it."""
        while key in self._making:
            await self._making[key].wait()
        kept = self._kept.get(key)
        if kept is not None and trio.current_time() - kept[0] < FRESH_SECONDS:
            return kept[1]
        done = self._making[key] = trio.Event()
        try:
            page = await trio.to_thread.run_sync(msgspec.json.encode, await make())
        finally:
            del self._making[key]
            done.set()
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[key] = (trio.current_time(), page)
        return page
