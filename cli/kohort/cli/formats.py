"""How `kohort consume` prints a record."""

import base64
import json
import string
from collections.abc import Callable

import click

from kohort.client import ConsumerRecord
from kohort.protocol.printable import printable, printable_json

Format = Callable[[ConsumerRecord], bytes]


class JsonText(bytes):
    """A key or a value that is JSON: within JSON it is no string."""


FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def make_format(text: str, *, to_terminal: bool = False) -> Format:
    """Return the function that `--format` names: value, key-value, json or a template of its own.

    A terminal obeys escape sequences, so records are escaped for it, but for line breaks and tabs. A pipe or
    a file gets the bytes as they are. JSON is escaped for both: it says the same.

    Raises: click.UsageError for a template with a field that no record has.
    """
    named = {"value": _value, "key-value": _key_value, "json": _json}
    if text in named:
        return _escaped(named[text]) if to_terminal else named[text]
    template = text.replace("\\t", "\t").replace("\\n", "\n")
    problem = _problem_of(template)
    if problem is not None:
        fields = ", ".join(f"{{{name}}}" for name in FIELDS)
        raise click.UsageError(
            f"--format {text!r}: {problem}; give value, key-value, json, or a template with {fields}"
        )
    if to_terminal:
        return lambda record: template.format(**_escaped_fields(record)).encode()
    return lambda record: template.format(**_fields(record)).encode()


def _escaped(form: Format) -> Format:
    return lambda record: for_terminal(form(record).decode(errors="backslashreplace")).encode()


def _escaped_fields(record: ConsumerRecord) -> dict[str, object]:
    return {
        name: for_terminal(value) if isinstance(value, str) else value
        for name, value in _fields(record).items()
    }


def for_terminal(text: str) -> str:
    """Return text without what a terminal would obey, but for line breaks and tabs."""
    return "\n".join(map(printable, text.split("\n")))


def _problem_of(template: str) -> str | None:
    """Return what is wrong with a template, None if nothing is."""
    try:
        used = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
        unknown = [name for name in used if name not in FIELDS]
        if unknown:
            return f"there is no field {unknown[0]!r}"
        template.format(**_fields(ConsumerRecord("", 0, 0, 0, b"", b"")))
    except ValueError as error:
        return str(error)
    return None if used else "it names no field"


def _value(record: ConsumerRecord) -> bytes:
    return b"" if record.value is None else record.value


def _key_value(record: ConsumerRecord) -> bytes:
    return (b"" if record.key is None else record.key) + b"\t" + _value(record)


def _json(record: ConsumerRecord) -> bytes:
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": _json_text(record.key),
        "value": _json_text(record.value),
        "headers": [[name, _json_text(value)] for name, value in record.headers],
    }
    delivery_count = getattr(record, "delivery_count", None)
    if delivery_count is not None:  # It came from a share group.
        fields["delivery_count"] = delivery_count
    return printable_json(json.dumps(fields, ensure_ascii=False)).encode()


def _json_text(data: bytes | None) -> object:
    """Return text as a string, and anything else as {"base64": ...}."""
    if data is None:
        return None
    if isinstance(data, JsonText):
        return json.loads(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _fields(record: ConsumerRecord) -> dict[str, object]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": ",".join(f"{name}:{_text(value)}" for name, value in record.headers),
    }


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="backslashreplace")
