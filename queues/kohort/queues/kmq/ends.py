"""End markers by run: those of the same moment go to the producer at once, partition by partition."""

import logging
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from math import inf

import anyio

from kohort.client.aio import Producer
from kohort.client.errors import ClosedError, KohortError
from kohort.client.key_runs import send_keys
from kohort.client.signal import Signal
from kohort.queues.kmq.markers import END, KEY_SIZE, pack_keys

logger = logging.getLogger(__name__)

LINGER_S = 0.005  # At most: they go at once if somebody waits for them, or with start markers.


class EndRun:
    """End markers of one partition that are written together. `await` it for when they are kept."""

    __slots__ = ("_error", "_is_done", "_kept", "_on_awaited", "offsets")

    def __init__(self, on_awaited: Callable[[], None]) -> None:
        self.offsets: list[int] = []
        self._on_awaited = on_awaited
        self._is_done = False
        self._error: KohortError | None = None
        self._kept: anyio.Event | None = None

    def __await__(self) -> Generator[object, None, None]:
        """Wait until they are kept. Raises: KohortError if they were not."""
        if not self._is_done:
            if self._kept is None:
                self._kept = anyio.Event()
            self._on_awaited()
            yield from self._kept.wait().__await__()
        if self._error is not None:
            raise self._error

    def finish(self, error: KohortError | None = None) -> None:
        """Their fate is known."""
        self._is_done, self._error = True, error
        if self._kept is not None:
            self._kept.set()


class EndMarkers:
    """Collects end markers for some milliseconds, and sends them, between `start` and `end`."""

    def __init__(self, producer: Producer[bytes, bytes], topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.collected: dict[int, EndRun] = {}
        """By partition: the run that takes the next end marker."""
        self._unsent: deque[tuple[int, EndRun]] = deque()
        self._unsettled: set[EndRun] = set()
        self._has_ended = False
        self._linger = anyio.CancelScope()  # Its deadline is when the task that sends wakes.
        self._is_awaited = Signal()
        self._settled = Signal()
        self._tasks = anyio.create_task_group()

    def begin(self, partition: int) -> EndRun:
        """Return a new run in `collected` for this partition. Raises: ClosedError after `end`."""
        if self._has_ended:
            raise ClosedError("the queue's client is closed")
        run = self.collected[partition] = EndRun(self._is_awaited.set)
        self._unsettled.add(run)
        if self._linger.deadline == inf:
            self._linger.deadline = anyio.current_time() + LINGER_S
        return run

    async def start(self) -> None:
        """Send what is collected from now on."""
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._run)

    async def end(self, *, is_waiting: bool) -> None:
        """Give the producer what is left; wait for its fate, or leave that to the producer's own end."""
        self._has_ended = True
        try:
            await (self.flush() if is_waiting else self.send())
        finally:
            for run in tuple(self._unsettled):
                self._settle(run, ClosedError("the queue's client was closed before the broker's answer"))
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)  # What the user raised is no error of these tasks.

    async def _run(self) -> None:
        while True:
            has_some = self.collected or self._unsent
            deadline = anyio.current_time() + LINGER_S if has_some else inf
            with anyio.CancelScope(deadline=deadline) as self._linger:
                await self._is_awaited.wait()
            await self.send()

    async def send(self) -> None:
        """Give everything that was collected to the producer.

        Where that is cancelled, the rest stays, and is sent by whoever sends next.
        """
        self._unsent += self.collected.items()
        self.collected.clear()
        self._linger.deadline = inf
        while self._unsent:
            partition, run = self._unsent.popleft()
            keys = pack_keys(partition, run.offsets)
            try:
                written = await send_keys(
                    self._producer, self._topic, partition, keys, END, key_size=KEY_SIZE
                )
            except KohortError as error:  # The records come again.
                self._settle(run, error)
            except BaseException:
                self._unsent.appendleft((partition, run))
                self._linger.deadline = anyio.current_time() + LINGER_S
                raise
            else:
                written.when_done(partial(self._settle, run))

    async def flush(self) -> None:
        """Return when the fate of everything that was added is known."""
        earlier = frozenset(self._unsettled)
        await self.send()
        while not earlier.isdisjoint(self._unsettled):
            await self._settled.wait()

    def _settle(self, run: EndRun, error: KohortError | None) -> None:
        if run not in self._unsettled:
            return  # It was given up, and its result came after that.
        if error is not None:
            logger.warning(
                "%s end marker(s) of %s were not kept: %s", len(run.offsets), self._topic, str(error)
            )
        run.finish(error)
        self._unsettled.discard(run)
        self._settled.set()
