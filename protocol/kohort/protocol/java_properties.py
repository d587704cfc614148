"""Java properties files, the format of Kafka's own configuration files.

The library javaproperties parses them. Source: java.util.Properties.load.
"""

import re
from pathlib import Path
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\r|\n")


class Property(NamedTuple):
    """One setting of a file: its name, its value, and the line on which it begins, from 1."""

    name: str
    value: str
    line: int


def read_properties(path: Path) -> list[Property]:
    """Return the settings of a file in order. If a name occurs twice, the last value counts.

    The text may be UTF-8, with or without a byte order mark, or ISO 8859-1 as Java writes it.

    Raises: OSError; ValueError with the line number of an invalid escape.
    """
    return parse_properties(_decoded(path.read_bytes()))


def parse_properties(text: str) -> list[Property]:
    """Return the settings of a text. Raises: ValueError with the line number of an invalid escape."""
    import javaproperties  # noqa: PLC0415  # Few brokers and commands read such a file.

    found = []
    line = 1
    try:
        for each in javaproperties.parse(text):
            if isinstance(each, javaproperties.KeyValue):
                found.append(Property(each.key, each.value, line))
            line += len(_LINE_END.findall(each.source))
    except javaproperties.InvalidUEscapeError as error:
        raise ValueError(f"line {line}: {error.escape} is not \\u and four hexadecimal digits") from None
    return found


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("iso-8859-1")
