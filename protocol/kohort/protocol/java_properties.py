"""Files of Java's properties, in which Kafka's tools and brokers keep their settings.

Source: java.util.Properties.load, read here by the library javaproperties.
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
    """Return the settings of a file in their order; of a name that comes twice the last one counts.

    The text may be UTF-8, with or without a byte order mark, or ISO 8859-1 as Java writes it.

    Raises: OSError, and ValueError with the line of an escape that Java refuses.
    """
    return parse_properties(_decoded(path.read_bytes()))


def parse_properties(text: str) -> list[Property]:
    """Return the settings of a text. Raises: ValueError with the line of an escape that Java refuses."""
    import javaproperties  # noqa: PLC0415  # A broker or command without such a file does not pay for it.

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
