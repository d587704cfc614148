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
FIELDS_MAX = 40_000
"""Of one push: a thousand numbers, each with six attributes. The loop stands still while they are read."""

Attributes = tuple[tuple[str, str], ...]
"""Names with values, sorted."""


class OtlpError(Exception):
    """The bytes are no MetricsData."""


class TooManyFields(OtlpError):
    """It would take too long to read them."""


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
    return _Reader(points_max).resources(memoryview(data))


class _Reader:
    """Reads one push. What it takes is bounded by the number of fields: an empty field has two bytes."""

    def __init__(self, points_max: int) -> None:
        self._points_left = points_max
        self._fields_left = FIELDS_MAX
        self._resource_data: memoryview | None = None
        self._resource_attributes: Attributes = ()

    def resources(self, data: memoryview) -> list[Resource]:
        found: list[Resource] = []
        for number, value in self._fields(data):
            if number == 1:
                found.append(self._resource(_message(value)))
                if not self._points_left:
                    break
        return found

    def _resource(self, data: memoryview) -> Resource:
        attributes: Attributes = ()
        points: list[Point] = []
        for number, value in self._fields(data):
            if number == 1:
                attributes = self._attributes(_message(value))
            elif number == 2:
                self._scope(_message(value), points)
                if not self._points_left:
                    break
        return Resource(attributes, tuple(points))

    def _attributes(self, data: memoryview) -> Attributes:
        """Return what a client says of itself. Some clients repeat it before each number."""
        if data != self._resource_data:
            found: dict[str, str] = {}
            for number, value in self._fields(data):
                if number == 1:
                    self._add_attribute(found, value)
            self._resource_data, self._resource_attributes = data, tuple(sorted(found.items()))
        return self._resource_attributes

    def _scope(self, data: memoryview, points: list[Point]) -> None:
        for number, value in self._fields(data):
            if number == 2:
                self._metric(_message(value), points)
                if not self._points_left:
                    break

    def _metric(self, data: memoryview, points: list[Point]) -> None:
        name = ""
        for number, value in self._fields(data):
            if number == 1:
                name = _text(value)
            elif number in (5, 7) and name:
                found = self._points(name, _message(value), is_sum=number == 7)
                self._points_left -= len(found)
                points.extend(found)

    def _points(self, name: str, data: memoryview, *, is_sum: bool) -> list[Point]:
        """Return the points of a gauge or a sum; the temporality of a sum may stand behind its points."""
        found: list[Point] = []
        is_delta = False
        for number, value in self._fields(data):
            if number == 1 and len(found) < self._points_left:
                point = self._point(name, _message(value), is_sum=is_sum)
                if math.isfinite(point.value):
                    found.append(point)
            elif number == 2:
                is_delta = is_sum and value == DELTA
        return [each._replace(is_delta=True) for each in found] if is_delta else found

    def _point(self, name: str, data: memoryview, *, is_sum: bool) -> Point:
        """Return a point; its value is NaN where it has none."""
        measured = math.nan
        attributes: dict[str, str] = {}
        for number, value in self._fields(data):
            if number == 4:
                measured = float(struct.unpack("<d", _fixed(value))[0])
            elif number == 6:
                measured = float(struct.unpack("<q", _fixed(value))[0])
            elif number == 7:
                self._add_attribute(attributes, value)
        return Point(name, measured, tuple(sorted(attributes.items())), is_sum)

    def _add_attribute(self, found: dict[str, str], value: int | memoryview) -> None:
        """Add a name with its value, the first of each name, where there are not too many."""
        if len(found) == ATTRIBUTES_MAX:
            return
        name, text = "", ""
        for number, inner in self._fields(_message(value)):
            if number == 1:
                name = _text(inner)
            elif number == 2:
                text = self._any_value(_message(inner))
        found.setdefault(name, text)

    def _any_value(self, data: memoryview) -> str:
        """Return a value as text; lists and maps are empty."""
        for number, value in self._fields(data):
            if number == 1:
                return _text(value)
            if number == 2:
                return "true" if value else "false"
            if number == 3 and isinstance(value, int):
                return str(value - (1 << 64) if value >> 63 else value)
            if number == 4:
                return repr(struct.unpack("<d", _fixed(value))[0])
        return ""

    def _fields(self, data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
        """Yield the number and the value of each field: an integer, or bytes. Raises: OtlpError."""
        at, end = 0, len(data)
        while at < end:
            if not self._fields_left:
                raise TooManyFields("there are too many fields")
            self._fields_left -= 1
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


# -- protobuf -----------------------------------------------------------------------------------------------


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
