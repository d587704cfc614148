"""Variable length numbers, held against construct's own."""

import construct
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol.errors import WireError
from kohort.protocol.varint import encode_string_length, encode_uvarint, read_string_length_rest, read_uvarint

numbers = st.integers(0, 0xFFFFFFFF)


@given(number=numbers)
def test_a_number_survives_its_encoding_and_construct_agrees(number: int) -> None:
    data = encode_uvarint(number)
    assert data == construct.VarInt.build(number)
    assert read_uvarint(b"x" + data + b"y", 1) == (number, 1 + len(data))


@pytest.mark.parametrize(
    "number, data",
    [
        (0, b"\0"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (0xFFFFFFFF, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_seven_bits_to_a_byte_the_lowest_first(number: int, data: bytes) -> None:
    assert encode_uvarint(number) == data


def test_a_number_can_be_encoded_longer_than_necessary() -> None:
    assert read_uvarint(b"\x85\x80\x00", 0) == (5, 3)


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x00"])
def test_more_than_32_bits_or_five_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        read_uvarint(data, 0)


@given(number=numbers)
def test_the_end_inside_a_number_is_an_index_error(number: int) -> None:
    with pytest.raises(IndexError):
        read_uvarint(encode_uvarint(number)[:-1], 0)


def test_a_string_length_ends_at_32767() -> None:
    assert encode_string_length(0x8000) == b"\x80\x80\x02"
    assert read_string_length_rest(b"\x80\x80\x02", 1, 0x80) == (0x8000, 3)
    with pytest.raises(ValueError, match="32768 bytes; the limit is 32767"):
        encode_string_length(0x8001)
    with pytest.raises(WireError, match="32768 bytes; the limit is 32767"):
        read_string_length_rest(b"\x81\x80\x02", 1, 0x81)
