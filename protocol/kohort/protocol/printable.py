"""Escapes text from clients for a terminal or a log line.

Clients choose client ids, group ids and reasons. A line break in them forges a log line, an escape sequence
rewrites the screen, and a bidirectional mark reverses letters.
"""

import re

_BLANKS = frozenset(" \t")
# Printable ASCII and tabs, which need no escape.
_PLAIN = re.compile(r"[\t\x20-\x7e]*")


def printable(text: str) -> str:
    """Return the text with every character escaped that is not printable, such as `\\x1b` and `\\n`."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(each if each in _BLANKS or each.isprintable() else _escaped(each) for each in text)


def printable_json(text: str) -> str:
    """Return equivalent JSON, with unprintable characters in its strings as `\\uXXXX`."""
    if text.isprintable():
        return text
    return "".join(each if each in " \t\n" or each.isprintable() else _json_escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _json_escaped(character: str) -> str:
    utf16 = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{utf16[at : at + 2].hex()}" for at in range(0, len(utf16), 2))
