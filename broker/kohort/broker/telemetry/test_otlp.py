"""MetricsData by hand: what is read of it, and that no bytes do harm."""

import random
import struct
import tracemalloc
from collections.abc import Iterable

import pytest

from kohort.broker.telemetry.otlp import (
    ATTRIBUTES_MAX,
    FIELDS_MAX,
    TEXT_MAX,
    OtlpError,
    Point,
    TooManyFields,
    read_metrics,
)

GAUGE, SUM, HISTOGRAM = 5, 7, 9


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes((value & 0x7F | 0x80,))
        value >>= 7
    return out + bytes((value,))


def piece(number: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name: str, value: str) -> bytes:
    return piece(1, name) + piece(2, piece(1, value))


def point(value: float | int, **attributes: str) -> bytes:
    number, form = (4, "<d") if isinstance(value, float) else (6, "<q")
    time = varint(3 << 3 | 1) + struct.pack("<Q", 1)
    packed = varint(number << 3 | 1) + struct.pack(form, value)
    return b"".join(piece(7, attribute(*each)) for each in attributes.items()) + time + packed


def metric(name: str, *points: bytes, kind: int = GAUGE, temporality: int = 0) -> bytes:
    data = b"".join(piece(1, each) for each in points)
    if temporality:
        data += varint(2 << 3) + varint(temporality) + varint(3 << 3) + varint(1)
    return piece(1, name) + piece(2, "what it is") + piece(3, "ms") + piece(kind, data)


def metrics_data(*metrics: bytes, attributes: Iterable[tuple[str, str]] = ()) -> bytes:
    resource = b"".join(piece(1, attribute(*each)) for each in attributes)
    scope = piece(1, piece(1, "scope")) + b"".join(piece(2, each) for each in metrics)
    return piece(1, piece(1, resource) + piece(2, scope))


def test_gauges_and_sums_are_read_with_who_sends_them() -> None:
    data = metrics_data(
        metric("commit.latency.avg", point(2.5)),
        metric("lag", point(7, topic="t", partition="0"), point(-8, topic="t", partition="1")),
        metric("polls", point(3), kind=SUM, temporality=1),
        metric("bytes", point(4), kind=SUM, temporality=2),
        attributes=[("group_id", "billing"), ("client_rack", "a")],
    )
    (resource,) = read_metrics(data, 100)
    assert resource.attributes == (("client_rack", "a"), ("group_id", "billing"))
    assert resource.points == (
        Point("commit.latency.avg", 2.5),
        Point("lag", 7, (("partition", "0"), ("topic", "t"))),
        Point("lag", -8, (("partition", "1"), ("topic", "t"))),
        Point("polls", 3, (), is_sum=True, is_delta=True),
        Point("bytes", 4, (), is_sum=True),
    )


def test_what_is_no_number_is_passed_over() -> None:
    data = metrics_data(
        metric("histogram", point(1.0), kind=HISTOGRAM),
        metric("nan", point(float("nan"))),
        metric("infinite", point(float("inf"))),
        metric("", point(1.0)),
        metric("empty"),
    )
    assert read_metrics(data + varint(9 << 3 | 5) + b"1234", 100)[0].points == ()


def test_only_so_many_numbers_names_and_letters_are_read() -> None:
    many = metrics_data(*(metric("m" * 1000, point(each)) for each in range(50)))
    first, second = read_metrics(many + many, 60)
    assert (len(first.points), len(second.points)) == (50, 10)
    assert len(first.points[0].name) == TEXT_MAX
    wide = metrics_data(metric("m", point(1, **{f"a{each}": "x" * 999 for each in range(40)})))
    ((name, value), *others) = read_metrics(wide, 5)[0].points[0].attributes
    assert (len(others) + 1, len(value)) == (ATTRIBUTES_MAX, TEXT_MAX)
    assert name.startswith("a")


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # A length is missing,
        b"\x0a\x05abc",  # bytes are,
        b"\x0b",  # groups are no longer in use,
        b"\xff" * 11,  # a number that does not end,
        b"\x08\x01",  # a number in place of a message,
        metrics_data(piece(1, "x") + piece(GAUGE, piece(1, piece(4, b"1234")))),  # four bytes for a double.
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(OtlpError):
        read_metrics(data, 100)


@pytest.mark.parametrize("seed", range(300))
def test_no_damage_raises_anything_else(seed: int) -> None:
    dice = random.Random(seed)
    data = bytearray(
        metrics_data(metric("a", point(1.5, x="y")), metric("b", point(3), kind=SUM, temporality=1))
    )
    for _ in range(dice.randint(1, 4)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    try:
        found = read_metrics(bytes(data[: dice.randint(0, len(data))]), 100)
    except OtlpError:
        return
    assert all(isinstance(each.value, float) for resource in found for each in resource.points)


@pytest.mark.parametrize(
    "data",
    [
        metrics_data(piece(1, "x") + piece(GAUGE, b"\x0a\x00" * 500_000)),  # Empty numbers,
        metrics_data(piece(1, "x") + piece(GAUGE, piece(1, b"\x3a\x00" * 500_000))),  # empty attributes,
        metrics_data(piece(1, "x") + piece(SUM, b"\x10\x01" * 500_000)),  # temporalities,
        piece(1, piece(1, b"\x0a\x00" * 500_000)),  # attributes of a resource,
        piece(1, piece(2, b"\x12\x00" * 500_000)),  # empty metrics,
        b"\x0a\x00" * 500_000,  # empty resources,
        b"\x10\x00" * 500_000,  # unknown fields.
    ],
)
def test_very_many_fields_are_refused_before_they_are_read(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TooManyFields):
            read_metrics(data, 1_000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16 * FIELDS_MAX * 16


def test_as_many_numbers_as_java_sends_at_once_are_read() -> None:
    labels = {f"label-{each}": "value" for each in range(6)}
    one = metrics_data(metric("m" * 60, point(1.5, **labels)), attributes=list(labels.items()))
    found = read_metrics(one * 2_000, 1_000)
    assert sum(len(each.points) for each in found) == 1_000
