"""Text from the wire, made fit for a terminal or a line of a log.

Client ids, group ids and reasons are whatever a client says: a line break in one forges a line, an escape
sequence colours, hides or rewrites what is on the screen, a mark of direction turns letters round.
"""

import re

_BLANKS = frozenset(" \t")
# What `str.isprintable` lets pass of ASCII; everything else is looked at letter by letter.
_PLAIN = re.compile(r"[\t\x20-\x7e]*")


def printable(text: str) -> str:
    """Return the text, in which all but letters, signs, blanks and tabs is escaped: `\\x1b`, `\\n`."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(each if each in _BLANKS or each.isprintable() else _escaped(each) for each in text)


def printable_json(text: str) -> str:
    """Return JSON that says the same: in its strings what is no letter or sign is a `\\uXXXX` of JSON's."""
    if text.isprintable():
        return text
    return "".join(each if each in " \t\n" or each.isprintable() else _json_escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _json_escaped(character: str) -> str:
    utf16 = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{utf16[at : at + 2].hex()}" for at in range(0, len(utf16), 2))
