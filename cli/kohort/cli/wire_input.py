"""Bytes out of text: hexadecimal digits, plain or as xxd, hexdump, od and Wireshark print them."""

import re
from collections.abc import Iterator
from itertools import pairwise

_OFFSET = re.compile(r"^\s*([0-9a-fA-F]{4,16})(:?)(?:\s+|$)")
_TEXT_COLUMN = re.compile(r"\s*(\|.*\|?|\s>.*<)\s*$")  # hexdump -C, od z
_XXD_TEXT = re.compile(r"^((?:[0-9a-fA-F]{2,8} )*[0-9a-fA-F]{2,8})  .*$")
_NOISE = re.compile(r"0[xX]|\\x|[\s,;:{}\[\]()'\"]")
_WORD = re.compile(r"[0-9a-fA-F]{4}")
REPEATED = "*"  # hexdump's and od's lines that are as the one before.


def bytes_of(text: str) -> bytes:
    """Return the bytes that `text` shows. Raises: ValueError that says which line is no hexadecimal."""
    lines = [line for line in text.splitlines() if line.strip()]
    if _is_dump(lines):
        last = _OFFSET.fullmatch(lines[-1])  # hexdump and od say the size at the end.
        return b"".join(_dumped(lines))[: None if last is None else int(last[1], 16)]
    return b"".join(_plain(number, line) for number, line in enumerate(lines, 1))


def _plain(number: int, line: str) -> bytes:
    digits = _NOISE.sub("", line)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise ValueError(f"line {number} is no hexadecimal: {line.strip()[:60]!r}") from None


def _is_dump(lines: list[str]) -> bool:
    """Return whether each line begins with the offset of what stands on it."""
    offsets = [(int(found[1], 16), found[2]) for line in lines if (found := _OFFSET.match(line)) is not None]
    if len(offsets) < len(lines) - lines.count(REPEATED) or not offsets or offsets[0][0] != 0:
        return False
    if all(colon for _, colon in offsets):
        return True
    steps = [after - before for (before, _), (after, _) in pairwise(offsets)]
    has_rest = _OFFSET.sub("", lines[0]).strip() != ""
    return has_rest and all(step > 0 for step in steps) and (bool(steps) or len(lines[0].split()[0]) >= 6)


def _dumped(lines: list[str]) -> Iterator[bytes]:
    position, last, repeats = 0, b"", False
    swaps = _has_little_words(lines)
    for number, line in enumerate(lines, 1):
        if line.strip() == REPEATED:
            repeats = True
            continue
        found = _OFFSET.match(line)
        assert found is not None
        offset = int(found[1], 16)
        while repeats and last and position < offset:
            yield last
            position += len(last)
        repeats = False
        rest = _TEXT_COLUMN.sub("", line[found.end() :])
        if found[2]:
            with_text = _XXD_TEXT.match(rest)
            rest = with_text[1] if with_text is not None else rest
        last = _plain(number, rest)
        if swaps:
            last = b"".join(last[at : at + 2][::-1] for at in range(0, len(last), 2))
        position += len(last)
        yield last


def _has_little_words(lines: list[str]) -> bool:
    """Return whether it is `hexdump` without -C, which prints words of two bytes as this machine has them."""
    groups = [each for line in lines for each in line.split()[1:]]
    has_colons = any(line.split()[0].endswith(":") for line in lines)
    has_text = any("|" in line for line in lines)
    return not has_colons and not has_text and bool(groups) and all(map(_WORD.fullmatch, groups))
