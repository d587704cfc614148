"""Many small records at once that differ in their keys alone: cheaper than one `send` for each."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import anyio

from kohort.client.batch import Appended, Batch
from kohort.client.errors import ConfigurationError, KohortError
from kohort.client.producer import Producer


class KeyRun:
    """The records of one call on their way. `await run.wait()` raises a KohortError if one of them failed."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[tuple[Appended, int]]) -> None:
        self._parts = parts

    async def wait(self) -> None:
        """Return once all of them are written. Raises: KohortError if one was not."""
        has_result, errors = anyio.Event(), list[KohortError]()

        def finish(error: KohortError | None) -> None:
            errors.extend(() if error is None else (error,))
            has_result.set()

        self.when_done(finish)
        await has_result.wait()
        if errors:
            raise errors[0]

    def when_done(self, callback: Callable[[KohortError | None], None]) -> None:
        """Call `callback` once the result of each is known, with the error of one that was not written."""
        error: KohortError | None = None
        for batch, index in self._batches():
            if not batch.is_done:
                batch.when_done(index, partial(self.when_done, callback))
                return
            error = error or batch.error
        callback(error)

    def _batches(self) -> Iterator[tuple[Batch, int]]:
        """Yield each batch that has records of the run, and the index of one of them there."""
        for first, count in self._parts:
            # A batch that was split or placed again has a result for each part.
            for index in range(first.index, first.index + (count if first.batch.parts else 1)):
                yield first.batch.locate(index)


async def send_keys(
    producer: Producer[bytes, bytes], topic: str, partition: int, keys: bytes, value: bytes, *, key_size: int
) -> KeyRun:
    """Send a record for each key of `key_size` bytes in `keys`; return when all have a place in a batch.

    The producer has no serializers and no transactions. Raises: as its `send` does.
    """
    if key_size < 1 or len(keys) % key_size:
        raise ValueError(f"{len(keys)} bytes are no keys of {key_size} bytes each")
    if not producer._is_plain:
        raise ConfigurationError("a run of keys is for a producer without serializers and transactions")
    accumulator = producer._session.accumulator
    parts: list[tuple[Appended, int]] = []
    while keys:
        now_ms = time.time_ns() // 1_000_000
        found = accumulator.append_keys(topic, partition, keys, value, now_ms, key_size=key_size)
        if not found:  # The topic is not known yet, or there is no room: this waits for it.
            found = [(await producer.send(topic, value, key=keys[:key_size], partition=partition), 1)]
        parts += found
        keys = keys[sum(count for _, count in found) * key_size :]
    return KeyRun(parts)
