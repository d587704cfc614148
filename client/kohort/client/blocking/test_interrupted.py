"""Calls of a blocking client that a signal interrupts. No broker is there."""

from collections.abc import Callable, Iterator

import pytest

from kohort.client import Consumer, TopicPartition
from kohort.client.fetch_buffer import Chunk
from kohort.protocol.records import build_batch

NOWHERE = "127.0.0.1:1"
PARTITION = TopicPartition("t", 0)


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    """A consumer that gets what a test puts into its buffer."""
    with Consumer(bootstrap_servers=NOWHERE, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign(PARTITION)
        consumer.seek(PARTITION, 0)
        yield consumer


def receive(consumer: Consumer, *values: bytes) -> None:
    """Let these be fetched, offsets from 0 on."""
    state = consumer._session.positions.get(PARTITION)
    consumer._buffer.add(Chunk(state, build_batch([(1_000, None, each, ()) for each in values])))


def test_a_poll_that_is_interrupted_loses_nothing(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = consumer._loop.call

    def interrupted(function: Callable[..., object], *args: object) -> None:
        receive(consumer, b"a", b"b")
        call(function, *args)  # type: ignore[arg-type]  # Whatever a poll waits for.
        raise KeyboardInterrupt

    monkeypatch.setattr(consumer._loop, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll()
    monkeypatch.undo()
    assert [each.offset for each in consumer.poll(timeout_ms=0)] == [0, 1]
