"""Many small records at once that differ in their keys alone: cheaper than one `send` for each."""

import time
from collections.abc import Sequence

from kohort.client.batch import Appended
from kohort.client.errors import ConfigurationError
from kohort.client.producer import Delivery, Producer


class KeyRun:
    """The records of one call on their way. `await run.wait()` raises a KohortError if one of them failed."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[tuple[Appended, int]]) -> None:
        self._parts = parts

    async def wait(self) -> None:
        """Return once all of them are written. Raises: KohortError if one was not."""
        for first, count in self._parts:
            batch = first.batch
            await Delivery(batch, first.index, first.timestamp_ms)
            if batch.parts:  # It was split, or placed again: then each part has its own result.
                for index in range(first.index + 1, first.index + count):
                    await Delivery(batch, index, first.timestamp_ms)


async def send_keys(
    producer: Producer[bytes, bytes], topic: str, partition: int, keys: list[bytes], value: bytes
) -> KeyRun:
    """Send a record for each of these keys, which have one size; return when all have a place in a batch.

    The producer has no serializers and no transactions. Raises: as its `send` does.
    """
    if len(set(map(len, keys))) > 1:
        raise ValueError("keys of one run have one size")
    if not producer._is_plain:
        raise ConfigurationError("a run of keys is for a producer without serializers and transactions")
    accumulator = producer._session.accumulator
    parts: list[tuple[Appended, int]] = []
    while keys:
        found = accumulator.append_keys(topic, partition, keys, value, time.time_ns() // 1_000_000)
        if not found:  # The topic is not known yet, or there is no room: this waits for it.
            found = [(await producer.send(topic, value, key=keys[0], partition=partition), 1)]
        parts += found
        keys = keys[sum(count for _, count in found) :]
    return KeyRun(parts)
