"""The event loop in which a client was opened: a call in another one would wait forever."""

from collections.abc import Callable

import anyio
import anyio.lowlevel

from kohort.client.errors import ConcurrentAccessError


class HomeLoop:
    """The loop that is running when this is created, and the task."""

    __slots__ = ("_current", "_loop", "_task_id")

    def __init__(self) -> None:
        native = anyio.lowlevel.current_token().native_token
        self._current = _getter(native)
        self._loop: object = native
        self._task_id = anyio.get_current_task().id

    def check(self) -> None:
        """Return in this loop. Raises: ConcurrentAccessError in another one, or in none."""
        try:
            if self._current() is self._loop:
                return
        except RuntimeError:  # There is none, or one of another library.
            pass
        raise ConcurrentAccessError(
            "this client was opened in another event loop: use it there, or open another client in this one"
        )

    def is_in_its_task(self) -> bool:
        """Whether the task runs that has made this."""
        return anyio.get_current_task().id == self._task_id


def _getter(native: object) -> Callable[[], object]:
    """Return the function that returns the running loop; neither loop's library is imported for it."""
    if hasattr(native, "run_sync_soon"):
        from trio.lowlevel import current_trio_token  # noqa: PLC0415  # It runs already.

        return current_trio_token
    from asyncio import get_running_loop  # noqa: PLC0415

    return get_running_loop
