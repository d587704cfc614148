"""What `send` takes, and what it refuses before anything of it is kept."""

from collections.abc import Iterator, Sequence

import pytest

from kohort.client.batch import Codec
from kohort.client.blocking.producer import Delivery, Producer
from kohort.client.record_input import checked_headers, checked_timestamp
from kohort.protocol.records import iterate_records

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def producer() -> Iterator[Producer]:
    """One whose topic is known, and whose broker never answers."""
    made = Producer(bootstrap_servers=NOWHERE)
    made._session.accumulator.learn("t", 1)
    yield made
    made._loop.stop()


def rows(delivery: Delivery) -> Sequence[object]:
    return [
        (each.timestamp, each.key, each.value, tuple(each.headers))
        for each in iterate_records(delivery.batch.to_bytes(Codec()))
    ]


@pytest.mark.parametrize("value", [b"plain", bytearray(b"made into bytes")])
@pytest.mark.parametrize(
    "headers",
    [
        {"a": "text"},
        [("a", "text")],
        [("a", 1)],
        [(b"a", b"1")],
        ["ab"],
        [("a", b"1", 2)],
        "ab",
        [("\ud800", b"")],
    ],
)
def test_headers_that_no_record_can_have_are_refused_at_once(
    producer: Producer, value: bytes, headers: object
) -> None:
    with pytest.raises((TypeError, ValueError), match="header"):
        producer.send("t", value, headers=headers)  # type: ignore[arg-type]  # That is what is tested.
    assert producer._session.accumulator.buffered_bytes == 0


@pytest.mark.parametrize("value", [b"plain", bytearray(b"made into bytes")])
@pytest.mark.parametrize("timestamp", [1.5, "12", -1, 2**63])
def test_a_time_that_no_record_can_have_is_refused_at_once(
    producer: Producer, value: bytes, timestamp: object
) -> None:
    with pytest.raises((TypeError, ValueError), match="timestamp_ms"):
        producer.send("t", value, timestamp_ms=timestamp)  # type: ignore[arg-type]  # That is what is tested.
    assert producer._session.accumulator.buffered_bytes == 0


def test_headers_can_be_a_mapping_and_are_copied_when_sent(producer: Producer) -> None:
    given = [("a", b"1")]
    first = producer.send("t", b"", headers=given, timestamp_ms=1)
    producer.send("t", b"", headers={"b": b"2", "c": None}, timestamp_ms=2)
    producer.send("t", b"", headers=None, key=b"k", timestamp_ms=3)
    given.append(("z", b"9"))
    assert rows(first) == [
        (1, None, b"", (("a", b"1"),)),
        (2, None, b"", (("b", b"2"), ("c", None))),
        (3, b"k", b"", ()),
    ]


def test_valid_input_is_kept() -> None:
    assert checked_timestamp(True) == 1
    assert checked_headers([["a", None]]) == (("a", None),)  # type: ignore[list-item]  # Lists will do.
