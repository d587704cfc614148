"""Keys and values as deserializers make them, and records of which they can make nothing."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kohort.client import Consumer, DeserializationError, SerializationError, TopicPartition
from kohort.client.fetched_chunk import Chunk
from kohort.client.values import AnyRecord
from kohort.protocol.records import build_batch

PARTITION = TopicPartition("t", 0)
Deserializer = Callable[[bytes], object]


@contextmanager
def consumer_of(
    *values: bytes | None, key: Deserializer | None = None, value: Deserializer | None = None
) -> Iterator[Consumer[object, object]]:
    """A consumer that has fetched these, in batches of three, with keys k0, k1 ..."""
    with Consumer(
        bootstrap_servers="127.0.0.1:1",
        group_id="g",
        enable_auto_commit=False,
        key_deserializer=key,
        value_deserializer=value,
    ) as consumer:
        consumer.assign(PARTITION)
        consumer.seek(PARTITION, 0)
        fetch(consumer, *values)
        yield consumer


def fetch(consumer: Consumer[object, object], *values: bytes | None) -> None:
    rows = [(1_000, b"k%d" % number, each, ()) for number, each in enumerate(values)]
    data = b"".join(
        build_batch(rows[start : start + 3], base_offset=start, leader_epoch=4)
        for start in range(0, len(rows), 3)
    )
    state = consumer._session.positions.get(PARTITION)
    consumer._buffer.add(Chunk(state, data))


def polled(consumer: Consumer[object, object]) -> list[object]:
    return [each.value for each in consumer.poll(timeout_ms=0)]


@pytest.mark.requirement("R24")
def test_keys_and_values_are_deserialized() -> None:
    with consumer_of(b"[1]", None, b'{"a": 2}', key=bytes.decode, value=json.loads) as consumer:
        records = consumer.poll(timeout_ms=0)
        assert [each.key for each in records] == ["k0", "k1", "k2"]
        assert [each.value for each in records] == [[1], None, {"a": 2}]
        assert [each.leader_epoch for each in records] == [4, 4, 4]


@pytest.mark.requirement("R24")
def test_iterating_over_the_consumer_deserializes_too() -> None:
    with consumer_of(b"1", b"2", value=int) as consumer:
        assert [next(consumer).value, next(consumer).value] == [1, 2]


def test_a_record_that_cannot_be_deserialized_raises_after_all_earlier_records() -> None:
    with consumer_of(b"1", b"2", b"3", b"four", b"5", value=int) as consumer:
        assert polled(consumer) == [1, 2, 3]
        for _ in range(2):
            with pytest.raises(
                DeserializationError, match=r"value_deserializer .* t-0 at offset 3: ValueError"
            ) as caught:
                polled(consumer)
            assert (caught.value.record.value, caught.value.record.offset) == (b"four", 3)
            assert isinstance(caught.value.__cause__, ValueError)
            assert consumer.position(PARTITION) == 3, "it stays before the record"
            fetch(consumer, b"1", b"2", b"3", b"four", b"5")
        consumer.seek(PARTITION, caught.value.record.offset + 1)
        fetch(consumer, b"1", b"2", b"3", b"four", b"5")
        assert polled(consumer) == [5], "a seek leaves it out"


def test_a_key_that_cannot_be_deserialized_is_named() -> None:
    with (
        consumer_of(b"1", key=int) as consumer,
        pytest.raises(SerializationError, match="key_deserializer failed"),
    ):
        polled(consumer)


def test_an_interrupt_within_a_deserializer_loses_nothing() -> None:
    interrupts = [True]

    def read(data: bytes) -> bytes:
        if data == b"2" and interrupts.pop():
            interrupts.append(False)
            raise KeyboardInterrupt
        return data

    with consumer_of(b"1", b"2", b"3", value=read) as consumer:
        with pytest.raises(KeyboardInterrupt):
            polled(consumer)
        interrupts[:] = [False] * 9
        assert polled(consumer) == [b"1", b"2", b"3"]


def test_deserializers_run_in_the_thread_that_reads() -> None:
    import threading

    seen: list[str] = []

    def read(data: bytes) -> bytes:
        seen.append(threading.current_thread().name)
        return data

    with consumer_of(b"1", value=read) as consumer:
        records: list[AnyRecord] = list(consumer.poll())
    assert (len(records), seen) == (1, [threading.current_thread().name])
