import json

import click
import pytest

from kohort.cli.formats import make_format
from kohort.client import ConsumerRecord

RECORD = ConsumerRecord("t", 1, 42, 1_000, b"k", "ü".encode(), (("h", b"1"), ("none", None)))
BINARY = ConsumerRecord("t", 0, 0, 0, None, b"\xff\x00")


def test_the_value_is_printed_as_it_is() -> None:
    assert make_format("value")(BINARY) == b"\xff\x00"
    assert make_format("key-value")(RECORD) == b"k\t\xc3\xbc"


def test_json_has_every_field_and_encodes_bytes_that_are_not_text() -> None:
    assert json.loads(make_format("json")(RECORD)) == {
        "topic": "t",
        "partition": 1,
        "offset": 42,
        "timestamp_ms": 1_000,
        "key": "k",
        "value": "ü",
        "headers": [["h", "1"], ["none", None]],
    }
    assert json.loads(make_format("json")(BINARY))["value"] == {"base64": "/wA="}
    assert json.loads(make_format("json")(BINARY))["key"] is None


HOSTILE = ConsumerRecord("t", 0, 0, 0, b"\x1b[31mk", "\x1b]0;title\x07\n\u009b31m\u202e\r\tü".encode())


@pytest.mark.parametrize("form", ["value", "key-value", "json", "{key} {value}"])
def test_a_terminal_is_sent_nothing_that_it_obeys(form: str) -> None:
    shown = make_format(form, to_terminal=True)(HOSTILE).decode()
    assert all(each.isprintable() or each in "\n\t" for each in shown)
    assert "ü" in shown
    assert "31m" in shown


def test_a_pipe_gets_the_bytes_as_they_are_and_json_never_has_control_characters() -> None:
    assert make_format("value")(HOSTILE) == HOSTILE.value
    shown = make_format("json")(HOSTILE).decode()
    assert shown.isprintable()
    assert json.loads(shown)["value"].encode() == HOSTILE.value


def test_a_template_names_fields() -> None:
    show = make_format(r"{topic}-{partition}@{offset:05d}\t{timestamp} {key}={value} [{headers}]")
    assert show(RECORD).decode() == "t-1@00042\t1000 k=ü [h:1,none:null]"
    assert make_format("{key} {value}")(BINARY) == rb"null \xff" + b"\x00"


@pytest.mark.parametrize(
    "text, problem",
    [
        ("{nothing}", "there is no field 'nothing'"),
        ("valeu", "it names no field"),
        ("{key", "expected '}'"),
        ("{}", "there is no field ''"),
        ("{offset:q}", "Unknown format code"),
    ],
)
def test_a_wrong_template_is_a_wrong_use(text: str, problem: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        make_format(text)
    assert problem in caught.value.message
