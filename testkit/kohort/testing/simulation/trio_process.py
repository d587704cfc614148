"""A process that runs trio: a whole trio program, stepped by the kernel, beside others in one thread.

trio's guest mode lets a host say when trio takes its next step. Here the host is the kernel: the clock of
the run is the process's clock, and a run that waits for a deadline is stepped again at that virtual time.
trio keeps its current run in a global variable of the thread. Each step puts its own run there.

The order of ready tasks comes from the seed, by the switch that trio has for pytest-trio and Hypothesis.
"""

import math
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import outcome
import trio
from trio._core import _run

from kohort.testing.simulation.closing import close_coroutine, close_generators
from kohort.testing.simulation.kernel import SECOND, Kernel, SteppedProcess
from kohort.testing.simulation.order import put_orders

trio_run: Any = _run  # The current run and the seeded order of tasks have no public names.


class _Order(threading.local):
    """The order of ready tasks: the seed's in the thread of a simulation, trio's own in all others."""

    source: Any = trio_run._r

    def __getattr__(self, name: str) -> Any:
        """Return what `Random` has of that name."""
        return getattr(self.source, name)


put_orders()
_order = _Order()
trio_run._r = _order
trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # Tasks are sorted before they are shuffled.


@contextmanager
def order_from(random: Random) -> Iterator[None]:
    """Let `random` say in which order ready tasks run, in this thread alone, within the block."""
    before, _order.source = _order.source, random
    try:
        yield
    finally:
        _order.source = before


def _is_cancellation(error: BaseException) -> bool:
    """Return whether nothing but a cancellation is in the error."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(trio.Cancelled)[1] is None
    return isinstance(error, trio.Cancelled)


class ProcessClock(trio.abc.Clock):
    """trio's clock is the clock of the process, in seconds since it began."""

    def __init__(self, process: "TrioProcess") -> None:
        self._process = process
        self._last = 0.0
        self.deadline: float | None = None
        """Until when the run waits, if it does."""

    def start_clock(self) -> None:
        """Do nothing: the clock of a process runs from the beginning."""

    def current_time(self) -> float:
        """Return a time that no call before has returned: equal deadlines have no fixed order."""
        self._last = max(self._last + 1e-9, self._process.elapsed_ns() / SECOND)
        return self._last

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Note the deadline. Return 0: the kernel waits, not trio."""
        self.deadline = deadline
        return 0.0


class TrioProcess(SteppedProcess):
    """Runs one async function with trio, until it ends or the process is killed."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        main: Callable[..., Awaitable[object]],
        *arguments: object,
        clock_rate: float = 1.0,
        wall_ahead_ns: int = 0,
    ) -> None:
        """Begin with `main(*arguments)` soon."""
        super().__init__(kernel, name, clock_rate=clock_rate, wall_ahead_ns=wall_ahead_ns)
        self.outcome: outcome.Outcome[Any] | None = None
        """What `main` returned or raised, once it has."""
        self._main = main
        self._arguments = arguments
        self.setup: Callable[[], object] = lambda: None
        """Called before `main`, within the run, to set its hooks."""
        self._clock = ProcessClock(self)
        self._context: dict[str, object] = {}  # What trio keeps in the thread while this run is current.
        self._hooks: Any = None
        self._tick: Callable[[], object] | None = None
        self._guest: Any = None
        self.step_at(kernel.time_ns)

    @property
    def error(self) -> BaseException | None:
        """The error that has ended it, None if there is none or it was cancelled."""
        error = self.outcome.error if isinstance(self.outcome, outcome.Error) else None
        return None if error is None or _is_cancellation(error) else error

    # -- one step -----------------------------------------------------------------------------------------

    def call_within(self, action: Callable[[], object]) -> None:
        """Call `action` while the run of this process is trio's current one."""
        order, _order.source = _order.source, self._order
        current = trio_run.GLOBAL_RUN_CONTEXT.__dict__
        outer = dict(current)
        hooks = sys.get_asyncgen_hooks()
        current.clear()
        current.update(self._context)
        if self._hooks is not None:
            sys.set_asyncgen_hooks(*self._hooks)
        try:
            self.kernel.call_as(self, action)
        finally:
            _order.source = order
            self._context = dict(current)
            self._hooks = sys.get_asyncgen_hooks()
            current.clear()
            current.update(outer)
            sys.set_asyncgen_hooks(*hooks)

    def step(self) -> None:
        """Let trio take one step."""
        if self._guest is None:
            self._start()
        self._clock.deadline = None
        tick, self._tick = self._tick, None
        assert tick is not None
        tick()

    def _start(self) -> None:
        trio.lowlevel.start_guest_run(
            self._run,
            run_sync_soon_threadsafe=self._take_tick,
            done_callback=self._done,
            host_uses_signal_set_wakeup_fd=True,
            clock=self._clock,
        )
        self._guest = getattr(self._tick, "__self__", None)

    async def _run(self) -> Any:
        self.setup()
        return await self._main(*self._arguments)

    def _take_tick(self, tick: Callable[[], object]) -> None:
        self._tick = tick

    # -- from outside -------------------------------------------------------------------------------------

    def act(self, action: Callable[[], object]) -> None:
        """Call `action` within the run: it may set trio's events and start tasks in nurseries."""
        if self._guest is None:
            super().act(action)
            return
        self.call_within(action)

    def next_step_ns(self) -> int | None:
        """Return when something is ready in the run, or its next deadline."""
        if not self.alive:
            return None
        if self._tick is None or self._clock.deadline is None:
            return self.soon_ns()  # It has not begun, or does not wait.
        runner: Any = self._guest.runner
        if runner.runq or runner.entry_queue.size():
            return self.soon_ns()
        deadline = runner.deadlines.next_deadline()
        return None if deadline == math.inf else self.kernel_time_ns(math.ceil(deadline * SECOND))

    def cancel(self) -> None:
        """Cancel `main`, as a program does that is told to end."""
        if self._guest is None:
            self.kill()  # It has not begun.
            return
        runner: Any = self._context["runner"]
        self.post(runner.main_task.parent_nursery.cancel_scope.cancel)

    def _done(self, result: outcome.Outcome[Any]) -> None:
        self.outcome = result
        self.ended_by_itself()

    def dispose(self) -> None:
        """Drop the run. What its coroutines do when they are closed reaches nothing: the process is dead."""
        super().dispose()
        self._tick = None
        if self._guest is not None and self.outcome is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.call_within(self._close_tasks)
        self._guest = None
        self._context = {}

    def _close_tasks(self) -> None:
        runner: Any = self._context["runner"]
        tasks = sorted(runner.tasks, key=lambda each: -each._counter)
        for task in tasks:
            for nursery in task.child_nurseries:
                nursery._children.clear()  # Nobody waits for them.
        for task in tasks:
            close_coroutine(task.coro)
        close_generators(tuple(runner.asyncgens.alive))
        with suppress(BaseException):
            self._guest.unrolled_run_gen.close()
