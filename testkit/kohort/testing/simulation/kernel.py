"""Virtual time and processes: everything that a simulation runs is an action at a time, in one thread.

    kernel = Kernel(seed=7)
    kernel.call_after(5 * SECOND, lambda: print(kernel.time_ns))
    kernel.run(until=lambda: done)

The kernel takes the earliest action, moves the clock to its time and calls it. Actions of the same time run
in the order in which they were made. All randomness comes from the seed, so a seed gives the same run again.
The idea is FoundationDB's: one thread, virtual time, and all the outside world simulated.
"""

import gc
import heapq
import logging
import math
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from structlog.testing import capture_logs

from kohort.testing.simulation.trace import Trace

Action = Callable[[], object]

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
STEP_NS_MIN, STEP_NS_MAX = 1_000, 40_000  # How long one step of a busy process takes, in virtual time.
STEP_NS_SPAN = STEP_NS_MAX - STEP_NS_MIN
START_WALL_NS = 1_700_000_000 * SECOND  # The wall time at which every run starts.
ACTIONS_PER_COLLECTION = 2_000
WAIT_SECONDS_MAX = 3_600.0  # Of virtual time. Timers of a broker never end, so a run needs a bound.
ACTIONS_MAX = 5_000_000  # A run with more of them spins: three brokers need 200,000 for 160 s.
COLLECTIONS_PER_WHOLE = 10  # The others leave alone what has outlived two of them.


@contextmanager
def _silence() -> Iterator[None]:
    hook, sys.unraisablehook = sys.unraisablehook, lambda _unraisable: None
    disabled = logging.root.manager.disable
    logging.disable()
    try:
        with capture_logs():
            yield
    finally:
        logging.disable(disabled)
        sys.unraisablehook = hook


class SimulationStuck(Exception):
    """Nothing is left to happen, and what the run waits for is not there."""


class Handle:
    """An action that is to happen. It can be cancelled."""

    __slots__ = ("action",)

    def __init__(self, action: Action) -> None:
        self.action: Action | None = action

    def cancel(self) -> None:
        """Let it not happen."""
        self.action = None


class Work:
    """What a thread does at once. Its sleeps make it take longer."""

    def __init__(self) -> None:
        self.slept_ns = 0


class Kernel:
    """The clock, the actions that are still to happen, and the processes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.time_ns = 0
        """The virtual time since the start of the run."""
        self.trace = Trace()
        """What has happened. Two runs of a seed have the same."""
        self.actions_run = 0
        self.current: Process | None = None
        """The process whose code runs now; None in the world outside of all processes."""
        self.work: Work | None = None
        """What a thread of the current process does now; None in its event loop."""
        self.processes: list[Process] = []
        """All of them, the dead ones too."""
        self._heap: list[tuple[int, int, Handle]] = []
        self._sequence = 0
        self._until: Callable[[], object] = lambda: True
        self._end_ns: float = 0
        self._collections = 0
        self._collect_at: float = math.inf  # After so many actions.
        self._last_action = 0
        """A run whose garbage is collected has failed after so many."""

    # -- what is to happen --------------------------------------------------------------------------------

    def call_at(self, time_ns: int, action: Action) -> Handle:
        """Call `action` at that time, or now if the time is past."""
        time_ns = max(time_ns, self.time_ns)
        handle = Handle(action)
        self._sequence += 1
        heapq.heappush(self._heap, (time_ns, self._sequence, handle))
        return handle

    def call_after(self, delay_ns: int, action: Action) -> Handle:
        """Call `action` when `delay_ns` have passed."""
        return self.call_at(self.time_ns + delay_ns, action)

    def step(self) -> bool:
        """Do the next thing. Return False if there is none. Raises: SimulationStuck after `ACTIONS_MAX`."""
        heap = self._heap
        if self.actions_run >= self._collect_at:
            self._collect_garbage()
        while heap:
            time_ns, _, handle = heapq.heappop(heap)
            action = handle.action
            if action is not None:
                handle.action = None
                self.time_ns = time_ns
                self.actions_run += 1
                action()
                return True
        return False

    def note(self, event: str, data: bytes = b"") -> None:
        """Add to the trace what happens now, and the bytes that it carries."""
        self.trace.note(self.time_ns, event, data)

    def run(self, until: Callable[[], object], seconds_max: float = WAIT_SECONDS_MAX) -> None:
        """Go on until `until` returns something true. Raises: SimulationStuck, also after `seconds_max`."""
        end_ns = self.time_ns + seconds_max * SECOND
        with self._running(until, end_ns):
            while not until():
                if not self.step():
                    raise SimulationStuck(f"nothing is left to happen at {self.time_ns / SECOND:.3f} s")
                if self.time_ns > end_ns:
                    raise SimulationStuck(f"it was waited for in vain for {seconds_max} s")

    def run_for(self, duration_ns: int) -> None:
        """Let this much time pass."""
        end_ns, heap = self.time_ns + duration_ns, self._heap
        with self._running(lambda: False, end_ns):
            while heap and heap[0][0] <= end_ns:
                if heap[0][2].action is None:
                    heapq.heappop(heap)
                else:
                    self.step()
        self.time_ns = end_ns

    @contextmanager
    def _running(self, until: Callable[[], object], end_ns: float) -> Iterator[None]:
        before = self._until, self._end_ns
        self._until, self._end_ns = until, end_ns
        try:
            yield
        finally:
            self._until, self._end_ns = before

    def goes_on_to(self, time_ns: int) -> bool:
        """Move the clock to that time, unless something else happens before or the run is over then.

        So an action can go on by itself, in place of one that it would add for that time.
        """
        heap = self._heap
        if self.actions_run >= self._collect_at:
            return False
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        if (heap and heap[0][0] <= time_ns) or time_ns > self._end_ns or self._until():
            return False
        self.time_ns = time_ns
        self.actions_run += 1
        return True

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Within the block collect garbage after so many actions, and at no other time.

        The block is one run: it has failed after `ACTIONS_MAX` actions.
        Garbage may have code that still runs, such as the `finally` of an async generator. Python would
        collect it by how many objects there are in the whole process, and in any of its threads.
        """
        is_automatic = gc.isenabled()
        gc.disable()
        self._collect_at = self.actions_run + ACTIONS_PER_COLLECTION
        self._last_action = self.actions_run + ACTIONS_MAX
        try:
            yield
        finally:
            self._collect_at = math.inf
            if is_automatic:
                gc.enable()

    def _collect_garbage(self) -> None:
        if self.actions_run >= self._last_action:
            seconds = self.time_ns / SECOND
            raise SimulationStuck(
                f"{ACTIONS_MAX:,} actions, and no end in {seconds:,.0f} s of virtual time: does a task spin?"
            )
        self._collections += 1
        self._collect_at = self.actions_run + ACTIONS_PER_COLLECTION
        gc.collect(1 if self._collections % COLLECTIONS_PER_WHOLE else 2)

    def close(self) -> None:
        """Let go of what the processes hold. The run cannot go on."""
        self._heap.clear()
        # Killed code runs its `finally` blocks when it is dropped. Nobody shall hear them.
        with _silence():
            for process in self.processes:
                process.dispose()
            self.processes.clear()
            gc.collect()

    def call_as(self, process: "Process", action: Action) -> None:
        """Call `action` as code of a process."""
        before, self.current = self.current, process
        try:
            action()
        finally:
            self.current = before

    @contextmanager
    def working(self) -> Iterator[Work]:
        """Let the code within the block be what a thread does. It may sleep: that takes time afterwards."""
        before, self.work = self.work, Work()
        try:
            yield self.work
        finally:
            self.work = before


class Process:
    """One process of an operating system: it can be paused and killed, and has a clock of its own.

    Its subclasses run something in it. What reaches it from outside (bytes, timers) comes by `post`.
    """

    def __init__(self, kernel: Kernel, name: str, *, clock_rate: float = 1.0, wall_ahead_ns: int = 0) -> None:
        """Begin at the kernel's time. The clock runs `clock_rate` times as fast as virtual time."""
        self.kernel = kernel
        self.name = name
        self.clock_rate = clock_rate
        self.wall_ahead_ns = wall_ahead_ns
        self.alive = True
        self.on_death: dict[Action, None] = {}
        """Called when the process ends, however it ends: the operating system closes its sockets here."""
        self.descriptors: dict[int, object] = {}
        """Its open sockets, for calls that take a descriptor."""
        self._began_ns = kernel.time_ns
        self._paused_until_ns = 0
        self._inbox: deque[Action] = deque()  # What came while it was paused.
        kernel.processes.append(self)

    @property
    def error(self) -> BaseException | None:
        """The error that has ended it, None if there is none. For subclasses."""
        return None

    # -- its clock ----------------------------------------------------------------------------------------

    def elapsed_ns(self) -> int:
        """Return the time since the process began, by its own clock, which may run fast or slow."""
        elapsed_ns = self.kernel.time_ns - self._began_ns
        return elapsed_ns if self.clock_rate == 1.0 else int(elapsed_ns * self.clock_rate)

    def monotonic_ns(self) -> int:
        """Return what the monotonic clock of the process's host shows."""
        return self.kernel.time_ns if self.clock_rate == 1.0 else self._began_ns + self.elapsed_ns()

    def wall_ns(self) -> int:
        """Return what the wall clock of the process's host shows, in nanoseconds since 1970."""
        return START_WALL_NS + self.wall_ahead_ns + self.monotonic_ns()

    def kernel_time_ns(self, elapsed_ns: int) -> int:
        """Return the virtual time at which `elapsed_ns()` returns at least this."""
        if self.clock_rate == 1.0:
            return self._began_ns + elapsed_ns
        return self._began_ns + int(elapsed_ns / self.clock_rate) + 1

    # -- its life -----------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether the process stands still."""
        return self.kernel.time_ns < self._paused_until_ns

    def post(self, action: Action) -> None:
        """Call `action` as code of this process: now, or as soon as the process is not paused."""
        if not self.alive:
            return
        if self._inbox or self.is_paused:
            self._inbox.append(action)
            return
        self.act(action)
        self.acted()

    def act(self, action: Action) -> None:
        """Call `action` as code of this process. For subclasses."""
        self.kernel.call_as(self, action)

    def acted(self) -> None:
        """Go on with what `post` has made ready. For subclasses."""

    def pause(self, duration_ns: int) -> None:
        """Stand still for `duration_ns`: a stopped virtual machine, a long garbage collection, SIGSTOP."""
        until_ns = self.kernel.time_ns + duration_ns
        if until_ns > self._paused_until_ns:
            self._paused_until_ns = until_ns
            self.kernel.call_at(until_ns, self._resume)

    def _resume(self) -> None:
        if not self.alive or self.is_paused:
            return
        while self._inbox and self.alive:
            self.act(self._inbox.popleft())
        self.acted()

    def kill(self) -> None:
        """End without a word, as SIGKILL does: none of its code runs any more."""
        if self.alive:
            self.alive = False
            self._inbox.clear()
            self._ended()

    def _ended(self) -> None:
        actions, self.on_death = self.on_death, {}
        for action in actions:
            action()

    def dispose(self) -> None:
        """Release what the process holds in this Python process. Its code does not go on. For subclasses."""
        self.alive = False
        self.on_death = {}


class SteppedProcess(Process, ABC):
    """A process whose program takes one step at a time, when something is to be done in it."""

    def __init__(self, kernel: Kernel, name: str, *, clock_rate: float = 1.0, wall_ahead_ns: int = 0) -> None:
        super().__init__(kernel, name, clock_rate=clock_rate, wall_ahead_ns=wall_ahead_ns)
        self._order = Random(kernel.random.getrandbits(64))
        self._wake: Handle | None = None
        self._wake_ns = -1

    def soon_ns(self) -> int:
        """Return the time of the next step when something is ready: a moment from now."""
        return self.kernel.time_ns + STEP_NS_MIN + int(self._order.random() * STEP_NS_SPAN)

    def step_at(self, time_ns: int) -> None:
        """Step at that virtual time, unless it is to be stepped before."""
        if self._wake is not None:
            if self._wake_ns <= time_ns:
                return
            self._wake.cancel()
        self._wake_ns = time_ns
        self._wake = self.kernel.call_at(time_ns, self._woken)

    def _woken(self) -> None:
        self._wake, self._wake_ns = None, -1
        if self.alive and not self.is_paused:  # A paused process is stepped by `acted` when it goes on.
            self.call_within(self._take_steps)

    def _take_steps(self) -> None:
        """Take one step after another, until something else happens in between."""
        kernel = self.kernel
        while True:
            self.step()
            time_ns = self.next_step_ns()
            if time_ns is None:
                return
            can_go_on = self._wake is None and self.alive and not self.is_paused
            if not can_go_on or not kernel.goes_on_to(time_ns):
                self.step_at(time_ns)
                return

    def acted(self) -> None:
        """Step when something is to be done."""
        time_ns = self.next_step_ns()
        if time_ns is not None:
            self.step_at(time_ns)

    @abstractmethod
    def call_within(self, action: Action) -> None:
        """Call `action` as code of the program."""

    @abstractmethod
    def step(self) -> None:
        """Take one step, as code of the program."""

    @abstractmethod
    def next_step_ns(self) -> int | None:
        """Return the virtual time of the next step, None if nothing is to be done."""

    def ended_by_itself(self) -> None:
        """Note that the program has ended. For subclasses."""
        if self.alive:
            self.alive = False
            self.kernel.call_after(0, self._ended)
