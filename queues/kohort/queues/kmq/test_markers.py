"""The bytes are those of softwaremill/kmq's MarkerKey, StartMarker and EndMarker, written down by hand."""

import pytest

from kohort.client.values import ConsumerRecord
from kohort.queues.kmq.copies import (
    DEAD_LETTER_OF,
    decode_count,
    encode_count,
    first_offset,
    headers_of_copy,
    headers_of_dead_letter,
    may_be_redelivered,
    redelivery_count,
    redelivery_of,
)
from kohort.queues.kmq.markers import (
    END,
    MarkerError,
    MarkerKey,
    Start,
    decode_key,
    decode_value,
    pack_keys,
)
from kohort.queues.kmq.queue import Queue

QUEUE = Queue("orders")


def record(offset: int, *headers: tuple[str, bytes | None]) -> ConsumerRecord:
    return ConsumerRecord("orders", 3, offset, 0, b"key", b"value", headers)


@pytest.mark.parametrize(
    "key, golden",
    [
        (MarkerKey(0, 0), "00000000 0000000000000000"),
        (MarkerKey(3, 258), "00000003 0000000000000102"),
        (MarkerKey(2**31 - 1, 2**63 - 1), "7fffffff 7fffffffffffffff"),
    ],
)
def test_a_key_is_partition_and_offset(key: MarkerKey, golden: str) -> None:
    assert key.encode() == bytes.fromhex(golden)
    assert decode_key(bytes.fromhex(golden)) == key


@pytest.mark.parametrize(
    "offsets", [[0], [255, 256, 258], [2**63 - 1, 0, 2**40], list(range(65_000, 66_000))]
)
@pytest.mark.parametrize("partition", [0, 3, 2**31 - 1])
def test_keys_are_packed_one_after_the_other(partition: int, offsets: list[int]) -> None:
    assert pack_keys(partition, offsets) == b"".join(MarkerKey(partition, each).encode() for each in offsets)


def test_a_start_is_a_one_and_its_time() -> None:
    golden = bytes.fromhex("01 0000000000015f90")  # 90 s, as in StandaloneConfig.
    assert Start(90_000).encode() == golden
    assert decode_value(golden) == Start(90_000)


def test_an_end_is_a_zero_and_whatever_else_does_not_begin_with_one() -> None:
    assert bytes.fromhex("00") == END
    assert decode_value(b"\x00") is None
    assert decode_value(b"\x07anything") is None


@pytest.mark.parametrize("value", [None, b"", b"\x01", b"\x01\x00\x00"])
def test_what_is_neither_is_no_marker(value: bytes | None) -> None:
    with pytest.raises(MarkerError):
        decode_value(value)


@pytest.mark.parametrize("key", [None, b"", b"\x00" * 11])
def test_a_short_key_is_no_marker(key: bytes | None) -> None:
    with pytest.raises(MarkerError):
        decode_key(key)


@pytest.mark.parametrize(
    "count, golden", [(0, "00"), (1, "01"), (127, "7f"), (128, "00000080"), (300, "0000012c")]
)
def test_a_count_has_one_byte_where_it_fits(count: int, golden: str) -> None:
    assert encode_count(count) == bytes.fromhex(golden)
    assert decode_count(bytes.fromhex(golden)) == count


def test_names_and_limits_are_the_originals() -> None:
    assert QUEUE.dead_letters_topic == "orders__undelivered"
    assert QUEUE.redelivery_count_header == "kmq-redelivery-count"
    assert QUEUE.max_redelivery_count == 3


def test_a_copy_keeps_its_headers_and_counts_up() -> None:
    first = record(10, ("trace", b"abc"), ("trace", None))
    copy = record(20, *headers_of_copy(first, QUEUE))
    again = record(30, *headers_of_copy(copy, QUEUE))
    assert copy.headers[:2] == first.headers == again.headers[:2]
    assert [redelivery_count(each, QUEUE) for each in (first, copy, again)] == [0, 1, 2]
    assert [redelivery_of(each) for each in (first, copy, again)] == [None, 10, 20]
    assert [first_offset(each) for each in (first, copy, again)] == [10, 10, 10]
    assert len(again.headers) == len(copy.headers)


def test_the_fourth_delivery_is_the_last() -> None:
    each = record(0)
    for _ in range(3):
        assert may_be_redelivered(each, QUEUE)
        each = record(each.offset + 1, *headers_of_copy(each, QUEUE))
    assert not may_be_redelivered(each, QUEUE)


def test_a_dead_letter_says_whose_it_is() -> None:
    letter = record(0, *headers_of_dead_letter(record(7, ("trace", b"abc")), "no such customer"))
    assert decode_key(letter.header(DEAD_LETTER_OF)) == MarkerKey(3, 7)
    assert letter.header("kmq-dead-letter-why") == b"no such customer"
    assert letter.header("trace") == b"abc"
