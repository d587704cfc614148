"""Work that is completed although its caller is cancelled: a consumer that leaves its group.

A shielded scope of anyio does not stop a native `task.cancel()` of asyncio, nor trio a Ctrl-C in its
main task. So the work has a separate task, which only its group can cancel.
"""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup


async def complete(
    tasks: TaskGroup,
    work: Callable[[], Awaitable[None]],
    *,
    patience_ms: float,
    on_cancelled: Callable[[], None] = lambda: None,
) -> None:
    """Return when `work`, run by a task of that group, has ended; a cancellation is raised only then.

    When cancelled, which calls `on_cancelled`, it waits at most `patience_ms`; at a second KeyboardInterrupt
    it stops waiting. Raises: the error of `work`, unless this task is cancelled.
    """
    errors: list[BaseException] = []
    ended = anyio.Event()
    scope = anyio.CancelScope(shield=True)

    async def run() -> None:
        try:
            with scope:
                await work()
        except Exception as error:  # noqa: BLE001 - Any error is raised to the waiter.
            errors.append(error)
        finally:
            ended.set()

    tasks.start_soon(run)
    cancellation = await _wait(ended, scope, patience_ms, on_cancelled)
    if cancellation is not None:
        raise cancellation
    if errors:
        raise errors[0]


async def _wait(
    ended: anyio.Event, scope: anyio.CancelScope, patience_ms: float, on_cancelled: Callable[[], None]
) -> BaseException | None:
    """Return when the work has ended, with the first cancellation or interrupt that happened meanwhile."""
    first: BaseException | None = None
    while not ended.is_set():
        try:
            with anyio.CancelScope(shield=first is not None):
                await ended.wait()
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt) as error:
            if first is None:
                first = error
                scope.deadline = min(scope.deadline, anyio.current_time() + patience_ms / 1000)
                on_cancelled()
            elif isinstance(error, KeyboardInterrupt):
                first = error
                scope.cancel()
    return first
