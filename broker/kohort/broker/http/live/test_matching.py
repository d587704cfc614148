"""What a search finds: keys, texts, and values in JSON by a path."""

import json

import pytest

from kohort.broker.http.live.matching import JSON_BYTES_MAX, Condition, Match, condition_of
from kohort.protocol.records import Record

ORDER = {
    "id": 17,
    "customer": {"id": "c-3", "first name": "Ada"},
    "total": 19.9,
    "paid": True,
    "note": None,
    "lines": [{"sku": "A-1", "count": 2}, {"sku": "B-2", "count": 5}],
}


def a_record(value: bytes | None, key: bytes | None = None) -> Record:
    return Record(0, 0, key, value, (("trace", b"4bf9"), ("n", None)))


@pytest.mark.parametrize(
    "text",
    [
        "$.id = 17",
        "id=17",
        "$.id = 17.0",
        "$.id != 18",
        "$.total > 19",
        "$.total <= 19.9",
        "$.customer.id = c-3",
        "$.customer.id = 'c-3'",
        '$.customer.id = "c-3"',
        '$["customer"]["first name"] = Ada',
        "$.customer.first name = Ada",
        "$.customer.id ~ -3",
        "$.customer.id > c-2",
        "$.lines[1].sku = B-2",
        "$.lines[*].count >= 5",
        "$.customer.* = c-3".replace(".*", "[*]"),
        "$.paid = true",
        "$.note = null",
        "$.note",
        "$.lines[*]",
    ],
)
def test_a_condition_that_holds(text: str) -> None:
    assert condition_of(text).holds(json.dumps(ORDER).encode())


@pytest.mark.parametrize(
    "text",
    [
        "$.id = 18",
        "$.id = seventeen",
        "$.id != 17",
        "$.missing != 1",
        "$.missing",
        "$.total > nothing",
        "$.total ~ 19",
        "$.paid = 1",
        "$.paid > 0",
        "$.note = ",
        "$.lines[2].sku",
        "$.lines.sku = A-1",
        "$.lines[*].count > 5",
        "$.customer = c-3",
        "$.id.more",
    ],
)
def test_a_condition_that_does_not_hold(text: str) -> None:
    assert not condition_of(text).holds(json.dumps(ORDER).encode())


@pytest.mark.parametrize("text", ["", "$", "= 3", "$.", "$.a[", "$.a[x]", "$.a]", "$" + ".a" * 21, "$..a"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no JSON path: write \$"):
        condition_of(text)


def test_blanks_without_an_end_are_read_once() -> None:
    """A regular expression tried every way to share them out, which stopped the broker for minutes."""
    with pytest.raises(ValueError, match="is no JSON path"):
        condition_of(" " * 100_000 + "!")
    assert condition_of(" " * 50_000 + "$.id" + " " * 50_000 + "= x ").steps == ("id",)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff\x00",
        b'{"id": 1',
        b"[" * 100_000,
        b'{"id": 1, "more": "' + b"x" * JSON_BYTES_MAX + b'"}',
        b"17",
    ],
)
def test_nothing_is_found_in_what_is_no_json_or_too_long(value: bytes | None) -> None:
    assert not condition_of("$.id").holds(value)


def test_a_number_that_no_float_holds_is_compared_as_it_is() -> None:
    assert condition_of("$.id = 9007199254740993").holds(b'{"id": 9007199254740993}')
    assert not condition_of("$.id = 9007199254740993").holds(b'{"id": 9007199254740992}')
    assert condition_of("$.id = 1").holds(b'{"id": 1, "most": 1e400}')
    assert condition_of("$.id < 1e400").holds(b'{"id": 1}')


def test_key_text_and_condition_have_to_hold_together() -> None:
    record = a_record(b'{"id": 1, "colour": "red"}', key=b"c-3")
    assert Match().finds(record)
    assert Match().is_any
    assert Match(key=b"c-3", text=b"red", condition=Condition(("id",), "=", "1")).finds(record)
    for wrong in (Match(key=b"c"), Match(text=b"blue"), Match(condition=Condition(("id",), "=", "2"))):
        assert not wrong.is_any
        assert not wrong.finds(record)
    assert Match(text=b"trace").finds(record)
    assert Match(text=b"4bf9").finds(record)
    assert not Match(key=b"c-3").finds(a_record(None))
