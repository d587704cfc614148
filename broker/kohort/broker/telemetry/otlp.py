"""Reads the numbers of OpenTelemetry's `MetricsData`: the protobuf that clients send.

Gauges and sums are read, all else is passed over: Kafka's clients send nothing else. These fields are read by
hand: the official package `opentelemetry-proto` takes protobuf along, and every installation that asks its
clients for metrics would need both, while nothing of it is written here.

Source: opentelemetry/proto/metrics/v1/metrics.proto, https://protobuf.dev/programming-guides/encoding.
"""

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
VARINT_BYTES_MAX = 10
DELTA = 1
"""AGGREGATION_TEMPORALITY_DELTA."""
ATTRIBUTES_MAX = 16
TEXT_MAX = 249

Attributes = tuple[tuple[str, str], ...]
"""Names with values, sorted."""


class OtlpError(Exception):
    """The bytes are no MetricsData."""


class Point(NamedTuple):
    """A number that a client measured. `is_sum`: it only adds up; `is_delta`: since the last push."""

    name: str
    value: float
    attributes: Attributes = ()
    is_sum: bool = False
    is_delta: bool = False


class Resource(NamedTuple):
    """Metrics of one client: who it is, by its own words, and its numbers."""

    attributes: Attributes
    points: tuple[Point, ...]


def read_metrics(data: bytes, points_max: int) -> list[Resource]:
    """Return the metrics of each resource, at most `points_max` numbers. Raises: OtlpError."""
    found: list[Resource] = []
    for number, value in _fields(memoryview(data)):
        if number == 1:
            resource = _resource(_message(value), points_max)
            points_max -= len(resource.points)
            found.append(resource)
    return found


def _resource(data: memoryview, points_max: int) -> Resource:
    attributes: Attributes = ()
    points: list[Point] = []
    for number, value in _fields(data):
        if number == 1:
            attributes = _attributes(_message(value), 1)
        elif number == 2:
            for inner, metric in _fields(_message(value)):
                if inner == 2:
                    for point in _metric(_message(metric)):
                        if len(points) == points_max:
                            return Resource(attributes, tuple(points))
                        points.append(point)
    return Resource(attributes, tuple(points))


def _metric(data: memoryview) -> Iterator[Point]:
    name = ""
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number in (5, 7) and name:
            yield from _points(name, _message(value), is_sum=number == 7)


def _points(name: str, data: memoryview, *, is_sum: bool) -> Iterator[Point]:
    """Yield the points of a gauge or a sum; the temporality of a sum may stand behind its points."""
    fields = list(_fields(data))
    is_delta = is_sum and any(number == 2 and value == DELTA for number, value in fields)
    for number, value in fields:
        if number == 1:
            found = _value(_message(value))
            if found is not None and math.isfinite(found):
                yield Point(name, found, _attributes(_message(value), 7), is_sum, is_delta)


def _value(data: memoryview) -> float | None:
    for number, value in _fields(data):
        if number == 4:
            return float(struct.unpack("<d", _fixed(value))[0])
        if number == 6:
            return float(struct.unpack("<q", _fixed(value))[0])
    return None


def _attributes(data: memoryview, field: int) -> Attributes:
    """Return the attributes that stand under this field number, sorted; the first of each name."""
    found: dict[str, str] = {}
    for number, value in _fields(data):
        if number == field and len(found) < ATTRIBUTES_MAX:
            name, text = _attribute(_message(value))
            found.setdefault(name, text)
    return tuple(sorted(found.items()))


def _attribute(data: memoryview) -> tuple[str, str]:
    name, text = "", ""
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number == 2:
            text = _any_value(_message(value))
    return name, text


def _any_value(data: memoryview) -> str:
    """Return a value as text; lists and maps are empty."""
    for number, value in _fields(data):
        if number == 1:
            return _text(value)
        if number == 2:
            return "true" if value else "false"
        if number == 3 and isinstance(value, int):
            return str(value - (1 << 64) if value >> 63 else value)
        if number == 4:
            return repr(struct.unpack("<d", _fixed(value))[0])
    return ""


# -- protobuf -----------------------------------------------------------------------------------------------


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and the value of each field: an integer, or bytes. Raises: OtlpError."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise OtlpError(f"there is no wire type {kind} in MetricsData")
        if size > end - at:
            raise OtlpError("a field is longer than its message")
        yield tag >> 3, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(VARINT_BYTES_MAX):
        if at == len(data):
            raise OtlpError("the message ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at
    raise OtlpError("a number has more than ten bytes")


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise OtlpError("a number stands where a message belongs")
    return value


def _fixed(value: int | memoryview) -> memoryview:
    data = _message(value)
    if len(data) != 8:
        raise OtlpError("a number of eight bytes is missing")
    return data


def _text(value: int | memoryview) -> str:
    return str(_message(value)[: 4 * TEXT_MAX], "utf-8", "replace")[:TEXT_MAX]
