"""End markers by run: those of the same moment go to the producer at once, partition by partition."""

import logging
from collections.abc import Generator
from itertools import repeat

import anyio

from kohort.client.aio import Producer
from kohort.client.errors import ClosedError, KohortError
from kohort.client.key_runs import KeyRun, send_keys
from kohort.queues.kmq.markers import END, pack_key

logger = logging.getLogger(__name__)

LINGER_S = 0.001
RUN_MAX = 2_000  # So many go at once without waiting for more.


class EndRun:
    """End markers of one partition that are written together. `await` it for when they are kept."""

    __slots__ = ("_error", "_is_done", "_kept", "offsets")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self._is_done = False
        self._error: KohortError | None = None
        self._kept: anyio.Event | None = None

    def __await__(self) -> Generator[object, None, None]:
        """Wait until they are kept. Raises: KohortError if they were not."""
        if not self._is_done:
            if self._kept is None:
                self._kept = anyio.Event()
            yield from self._kept.wait().__await__()
        if self._error is not None:
            raise self._error

    def finish(self, error: KohortError | None = None) -> None:
        """Their fate is known."""
        self._is_done, self._error = True, error
        if self._kept is not None:
            self._kept.set()


class EndMarkers:
    """Collects end markers for a millisecond, and sends them, between `start` and `end`."""

    def __init__(self, producer: Producer[bytes, bytes], topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._runs: dict[int, EndRun] = {}
        self._unsettled: set[EndRun] = set()
        self._has_ended = False
        self._has_some = anyio.Event()
        self._is_full = anyio.Event()
        self._settled = anyio.Event()
        self._tasks = anyio.create_task_group()

    def add(self, partition: int, offset: int) -> EndRun:
        """Return the run that this record's end marker is part of. Raises: ClosedError after `end`."""
        run = self._runs.get(partition)
        if run is None:
            if self._has_ended:
                raise ClosedError("the queue's client is closed")
            run = self._runs[partition] = EndRun()
            self._has_some.set()
        offsets = run.offsets
        offsets.append(offset)
        if len(offsets) == RUN_MAX:
            self._is_full.set()
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
            await self._has_some.wait()
            with anyio.move_on_after(LINGER_S):
                await self._is_full.wait()
            await self.send()

    async def send(self) -> None:
        """Give everything that was collected to the producer."""
        if not self._runs:
            return  # `_run` waits for the event that is there.
        runs, self._runs = self._runs, {}
        self._has_some, self._is_full = anyio.Event(), anyio.Event()
        self._unsettled.update(runs.values())
        for partition, run in runs.items():
            keys = list(map(pack_key, repeat(partition), run.offsets))
            try:
                written = await send_keys(self._producer, self._topic, partition, keys, END)
            except KohortError as error:  # The records come again.
                self._settle(run, error)
                continue
            self._tasks.start_soon(self._wait, run, written)

    async def flush(self) -> None:
        """Return when the fate of everything that was added is known."""
        await self.send()
        while self._unsettled:
            await self._settled.wait()

    async def _wait(self, run: EndRun, written: KeyRun) -> None:
        error: KohortError | None = None
        try:
            await written.wait()
        except KohortError as failure:
            error = failure
        self._settle(run, error)

    def _settle(self, run: EndRun, error: KohortError | None) -> None:
        if error is not None:
            logger.warning(
                "%s end marker(s) of %s were not kept: %s", len(run.offsets), self._topic, str(error)
            )
        run.finish(error)
        self._unsettled.discard(run)
        self._settled.set()
        self._settled = anyio.Event()
