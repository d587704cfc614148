"""What `kohort produce` makes of a line: a value, a key with a value, or a record written as JSON."""

import base64
import binascii
import json
from collections.abc import Callable
from typing import NamedTuple

import click

FORMATS = ("value", "json")
SHOWN_BYTES = 60


class InputRecord(NamedTuple):
    """A record to be written; no value is a tombstone."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None


def line_record(separator: bytes | None, null_marker: bytes | None) -> Callable[[bytes, int], InputRecord]:
    """Return what makes a record of a plain line and its number: before the separator stands the key."""

    def read(line: bytes, number: int) -> InputRecord:
        key, value = _split(line, separator, number)
        return InputRecord(_without(key, null_marker), _without(value, null_marker), [], None)

    return read


def json_record(line: bytes, number: int) -> InputRecord:
    """Return the record of a line as `consume --format json` prints it, without its place and time.

    Key, value and values of headers are text, null, or {"base64": ...}; any other value is written as JSON.
    Raises: click.ClickException with the line's number.
    """
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise _wrong(number, f"it is no JSON ({error})", line) from None
    if not isinstance(fields, dict) or "value" not in fields:
        raise _wrong(number, 'it is no object with a "value"', line)
    partition = None if "offset" in fields else fields.get("partition")  # Where it was is not where it goes.
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool)):
        raise _wrong(number, '"partition" is no number', line)
    headers = fields.get("headers", [])
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    if not isinstance(pairs, list) or not all(_is_pair(each) for each in pairs):
        raise _wrong(number, '"headers" are no pairs of name and value', line)
    return InputRecord(
        _data(fields.get("key"), number, line),
        _data(fields["value"], number, line),
        [(name, _data(value, number, line)) for name, value in pairs],
        partition,
    )


def _is_pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str)


def _data(value: object, number: int, line: bytes) -> bytes | None:
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (TypeError, ValueError, binascii.Error) as error:
            raise _wrong(number, f"that is no base64 ({error})", line) from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _without(data: bytes | None, null_marker: bytes | None) -> bytes | None:
    return None if null_marker is not None and data == null_marker else data


def _split(line: bytes, separator: bytes | None, number: int) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator)
    if not found:
        shown = separator.decode(errors="backslashreplace")
        raise _wrong(number, f"has no key separator {shown!r}", line)
    return key, value


def _wrong(number: int, what: str, line: bytes) -> click.ClickException:
    shown = line[:SHOWN_BYTES].decode(errors="backslashreplace")
    words = what if what.startswith("has ") else f"is not what --format json takes: {what}"
    return click.ClickException(f"line {number} {words}: {shown!r}")
