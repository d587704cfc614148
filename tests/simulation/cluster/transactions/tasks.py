"""Coroutines of one process of the cluster: they rest with it when it is paused, and end when it dies."""

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from tests.simulation.cluster.links import Process
from tests.simulation.schedule import Pause

T = TypeVar("T")


class Until:
    """What a coroutine awaits until somebody says what came of it: the first result counts."""

    def __init__(self) -> None:
        self._result: list[Any] = []
        self._resume: Callable[[Any], None] | None = None

    def put(self, result: Any) -> None:
        """Let whoever waits go on with this."""
        if not self._result:
            self._result.append(result)
            if self._resume is not None:
                self._resume(result)

    def begin(self, resume: Callable[[Any], None]) -> None:
        """Call `resume` with the result, now if it is there."""
        self._resume = resume
        if self._result:
            resume(self._result[0])

    def __await__(self) -> Generator["Until", Any, Any]:
        return (yield self)


class _Event:
    """Something that one task waits for."""

    def __init__(self) -> None:
        self._until = Until()

    def set(self) -> None:
        self._until.put(None)

    async def wait(self) -> None:
        await self._until


class Tasks:
    """The tasks of one process: this is the broker's `Workers`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def spawn(self, function: Callable[..., Coroutine[Any, Any, object]], /, *arguments: object) -> None:
        """Run the coroutine function as a task of its own."""
        task = function(*arguments)
        self._process.after(0, partial(self._advance, task, None))

    def _advance(self, task: Coroutine[Any, Any, object], result: Any) -> None:
        try:
            wanted = task.send(result)
        except StopIteration:
            return
        if isinstance(wanted, Pause):
            self._process.after(wanted.delay_ms, partial(self._advance, task, None))
        else:
            assert isinstance(wanted, Until)
            wanted.begin(lambda found: self._process.after(0, partial(self._advance, task, found)))

    async def in_thread(
        self, function: Callable[..., T], /, *arguments: object, limiter: object | None = None
    ) -> T:
        """Return what the function does, a while later."""
        await Pause(1)
        return function(*arguments)

    def limiter(self, threads: int) -> object:
        """Return anything: whoever asks for a thread waits for it anyway."""
        return threads

    def queue(self, name: str) -> Any:
        """Nobody asks for a thread of its own."""
        raise NotImplementedError(name)

    async def sleep(self, seconds: float) -> None:
        """Return when so much virtual time has passed."""
        await Pause(round(seconds * 1_000))

    def move_on_after(self, seconds: float) -> AbstractContextManager[object]:
        """Return a block that never ends early: nobody in here waits for long."""
        return nullcontext()

    async def give_way(self) -> None:
        """Return once the others have had their turn."""
        await Pause(0)

    def event(self) -> _Event:
        """Return something to wait for."""
        return _Event()

    def check_cancelled(self) -> None:
        """Nothing: a process that dies drops its tasks."""
