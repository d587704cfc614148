"""Virtual time: what happens when, and the broker's own coroutines and worker threads driven by it.

Nothing in here waits. The next entry of the heap is taken, the clock jumps to its time, it is run.
"""

import heapq
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol, TypeVar

from kohort.protocol.errors import ApiError, WireError

T = TypeVar("T")
R = TypeVar("R")

START_MS = 1_700_000_000_000
Action = Callable[[], None]


class Schedule:
    """The clock, and a heap of what is still to happen; entries of the same time run in order."""

    def __init__(self) -> None:
        self.time_ms = START_MS
        self.entries_run = 0
        self._heap: list[tuple[int, int, Action]] = []
        self._sequence = 0

    def now_ms(self) -> int:
        """Return the virtual time: this is the broker's `Clock`."""
        return self.time_ms

    def wall_ms(self) -> int:
        """Return the virtual time: nobody sets a clock in here."""
        return self.time_ms

    def after(self, delay_ms: int, action: Action) -> None:
        """Let `action` run when `delay_ms` have passed."""
        self._sequence += 1
        heapq.heappush(self._heap, (self.time_ms + delay_ms, self._sequence, action))

    def at(self, time_ms: int, action: Action) -> None:
        """Let `action` run at that time, now if it has passed."""
        self._sequence += 1
        heapq.heappush(self._heap, (max(time_ms, self.time_ms), self._sequence, action))

    def run_until(self, time_ms: int) -> None:
        """Run everything that is due up to and at that time."""
        heap, pop = self._heap, heapq.heappop
        count = 0
        while heap and heap[0][0] <= time_ms:
            self.time_ms, _, action = pop(heap)
            action()
            count += 1
        self.entries_run += count
        self.time_ms = time_ms


class Pause:
    """What a coroutine awaits to let virtual time pass."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms

    def __await__(self) -> Generator["Pause", None, None]:
        yield self


class Tasks:
    """A nursery of one process: its coroutines are resumed while it lives, and dropped when it dies."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.alive = True

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
        """Run the coroutine function as a task of its own."""
        task = function(*arguments)
        self._schedule.after(0, lambda: self._resume(task))

    def _resume(self, task: Coroutine[Any, Any, object]) -> None:
        if not self.alive:
            task.close()
            return
        try:
            pause = task.send(None)
        except StopIteration:
            return
        assert isinstance(pause, Pause), f"a task waits for {pause!r}, which the simulation cannot give it"
        self._schedule.after(pause.delay_ms, lambda: self._resume(task))


class Process(Protocol):
    """What virtual threads need of the process that they belong to."""

    schedule: Schedule

    def work_ms(self) -> int:
        """Return how long a worker thread takes for what it was given."""
        ...

    def when_alive(self, delay_ms: int, action: Action) -> None:
        """Run `action` later, unless the process has died by then."""
        ...

    def working(self, function: Callable[[], T]) -> T:
        """Return what the function does; the process may die in the middle of its writes."""
        ...


class VirtualWorker:
    """A pool of one thread: work is done later, one after another."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._free_at_ms = 0

    def submit(self, function: Callable[..., T], *arguments: object) -> "Future[T]":
        """Do it once what was submitted before is done."""
        schedule = self._process.schedule
        self._free_at_ms = max(self._free_at_ms, schedule.time_ms) + self._process.work_ms()
        future: Future[T] = Future()

        def step() -> None:
            try:
                future.set_result(self._process.working(partial(function, *arguments)))
            except (ApiError, WireError) as error:
                future.set_exception(error)

        self._process.when_alive(self._free_at_ms - schedule.time_ms, step)
        return future

    def shutdown(self, **_options: bool) -> None:
        """Drop what has not begun."""

    def close(self) -> None:
        """Drop what has not begun."""


class VirtualEvent:
    """Something that tasks wait for."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Let whoever waits go on."""
        self._is_set = True

    async def wait(self) -> None:
        """Return once it is set."""
        while not self._is_set:
            await Pause(1)


class VirtualWorkers:
    """The tasks and threads of one process: this is the broker's `Workers`."""

    def __init__(self, process: Process, tasks: Tasks) -> None:
        self._process = process
        self._tasks = tasks

    def spawn(self, function: Callable[..., Any], /, *arguments: object) -> None:
        """Run the coroutine function as a task of its own."""
        self._tasks.start_soon(function, *arguments)

    async def in_thread(
        self, function: Callable[..., T], /, *arguments: object, limiter: object | None = None
    ) -> T:
        """Return what the function does, a while later."""
        await Pause(self._process.work_ms())
        result = self._process.working(partial(function, *arguments))
        await Pause(0)
        return result

    def limiter(self, threads: int) -> object:
        """Return anything: whoever asks for a thread waits for it anyway."""
        return threads

    def queue(self, name: str) -> Any:
        """Return a thread of its own."""
        return VirtualWorker(self._process)

    def writers(self, name: str, threads: int) -> Any:
        """Return threads. The flusher of the simulation writes by itself, so it gives them nothing."""
        return VirtualWorker(self._process)

    def map(self, threads: int, function: Callable[[T], R], arguments: Iterable[T]) -> list[R]:
        """Return what the function returns for each argument."""
        return list(map(function, arguments))

    async def sleep(self, seconds: float) -> None:
        """Return when so much virtual time has passed."""
        await Pause(round(seconds * 1000))

    def move_on_after(self, seconds: float) -> AbstractContextManager[object]:
        """Return a block that never ends early: nobody in the simulation waits for long."""
        return nullcontext()

    async def give_way(self) -> None:
        """Return once the others have had their turn."""
        await Pause(0)

    def event(self) -> VirtualEvent:
        """Return something to wait for."""
        return VirtualEvent()

    def check_cancelled(self) -> None:
        """Nothing: a process that dies drops its threads."""
