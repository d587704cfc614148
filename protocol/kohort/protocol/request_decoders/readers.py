"""Reads numbers and text from bytes in the compiled decoders, without objects of Python for the numbers.

Only mypyc makes it fast: a decoder that is interpreted has methods of `struct.Struct` under the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64


def boolean(data: bytes, pos: i64) -> bool:
    """Return whether the byte at `pos` is not zero."""
    return data[pos] != 0


def int8(data: bytes, pos: i64) -> i64:
    """Return the signed integer of one byte at `pos`."""
    value: i64 = data[pos]
    return value - 0x100 if value > 0x7F else value


def uint16(data: bytes, pos: i64) -> i64:
    """Return the unsigned integer of two bytes at `pos`."""
    high: i64 = data[pos]
    low: i64 = data[pos + 1]
    return high << 8 | low


def int16(data: bytes, pos: i64) -> i64:
    """Return the signed integer of two bytes at `pos`."""
    value = uint16(data, pos)
    return value - 0x10000 if value > 0x7FFF else value


def int32(data: bytes, pos: i64) -> i64:
    """Return the signed integer of four bytes at `pos`."""
    return int16(data, pos) << 16 | uint16(data, pos + 2)


def int64(data: bytes, pos: i64) -> i64:
    """Return the signed integer of eight bytes at `pos`."""
    low = uint16(data, pos + 4) << 16 | uint16(data, pos + 6)
    return int32(data, pos) << 32 | low


def text(data: bytes, encoding: str) -> str:
    """Return what `str(data, "utf-8")` does: decoders name no other encoding."""
    return data.decode()
