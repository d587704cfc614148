"""Zigzag integers: Java's bounds, and what is too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.protocol.errors import WireError
from kohort.protocol.records.varint import encode_varint, read_varint


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_long_survives_its_encoding(number: int) -> None:
    encoded = encode_varint(number)
    assert len(encoded) <= 10
    assert read_varint(b"\xff" + encoded, 1) == (number, 1 + len(encoded))


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (8192, "808001"),
    ],
)
def test_small_numbers_are_short(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encoded


def test_more_than_ten_bytes_are_refused() -> None:
    with pytest.raises(WireError, match="ten bytes"):
        read_varint(b"\xff" * 11, 0)
    with pytest.raises(WireError, match="64 bits"):
        read_varint(b"\xff" * 9 + b"\x7f", 0)
