"""A process that runs an asyncio program, with an event loop of its own."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from kohort.testing.simulation.closing import close_coroutine, close_generators
from kohort.testing.simulation.ends import Host
from kohort.testing.simulation.kernel import Kernel, SteppedProcess
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.network import Network


class AsyncioProcess(SteppedProcess):
    """Runs one coroutine function, until it ends or the process is killed."""

    def __init__(
        self,
        kernel: Kernel,
        network: Network,
        host: Host,
        main: Callable[..., Coroutine[Any, Any, object]],
        *arguments: object,
        name: str | None = None,
        clock_rate: float = 1.0,
        wall_ahead_ns: int = 0,
    ) -> None:
        """Begin with `main(*arguments)` soon."""
        super().__init__(kernel, name or host.name, clock_rate=clock_rate, wall_ahead_ns=wall_ahead_ns)
        self.loop = SimulatedLoop(self, network, host)
        self.task: asyncio.Task[object] | None = None
        """The task of `main`, once it has begun."""
        self._main = main
        self._arguments = arguments
        self.post(self._begin)

    @property
    def outcome(self) -> "asyncio.Task[object] | None":
        """The task of `main`, once it is done."""
        return self.task if self.task is not None and self.task.done() else None

    @property
    def error(self) -> BaseException | None:
        """The error that has ended it, None if there is none."""
        done = self.outcome
        return None if done is None or done.cancelled() else done.exception()

    def _begin(self) -> None:
        self.task = task = self.loop.create_task(self._main(*self._arguments), name=self.name)
        task.add_done_callback(lambda _task: self.ended_by_itself())

    # -- steps --------------------------------------------------------------------------------------------

    def call_within(self, action: Callable[[], object]) -> None:
        """Call `action` as code of the loop."""
        self.kernel.call_as(self, partial(self.loop.call_within, action))

    act = call_within

    def step(self) -> None:
        """Let the loop do what is ready."""
        self.loop.run_once()

    def next_step_ns(self) -> int | None:
        """Return when the loop has something to do."""
        if not self.alive:
            return None
        next_ns = self.loop.next_ns()
        if next_ns == 0:
            return self.soon_ns()
        return None if next_ns is None else self.kernel_time_ns(next_ns)

    # -- its end ------------------------------------------------------------------------------------------

    def terminate(self) -> None:
        """Ask it to end, as SIGTERM does: by its handler, or by cancelling `main` as `asyncio.run` does."""
        handler = self.loop.signal_handlers.get(signal.SIGTERM)
        if handler is not None:
            self.post(handler)
        elif self.task is not None:
            self.post(self.task.cancel)
        else:
            self.kill()  # It has not begun.

    def dispose(self) -> None:
        """Drop the loop and its tasks."""
        super().dispose()
        self.act(self._close_tasks)
        self.loop._ready.clear()
        self.loop._scheduled.clear()
        with suppress(RuntimeError):
            self.loop.close()

    def _close_tasks(self) -> None:
        # By their hashes, which are their numbers: Python counts the tasks of all runs for their names.
        for task in sorted(asyncio.all_tasks(self.loop), key=hash):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # Nobody waits for it.
            close_coroutine(task.get_coro())
        generators: Any = self.loop._asyncgens
        close_generators(tuple(generators))
