"""The syntax of regular expressions that clients send: RE2's, which Kafka takes, as a tree.

The tree is small for any text: `a{1000}` is one node with a count. `weight` is how many
states its automaton has, known before one is built. Lookaround and backreferences are refused, as RE2
refuses it. Word boundaries, lines (`(?m)`), bytes (`\\C`) and scripts (`\\p{Greek}`) are refused, too; RE2
has them.

Source: https://github.com/google/re2/wiki/Syntax.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

LENGTH_MAX = 4_096
NESTING_MAX = 50
"""Groups in groups. RE2's limit is 1,000."""
REPETITIONS_MAX = 1_000
"""The largest number between braces, as in RE2."""
HIGHEST = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]
"""Code points from the first to the second, both included."""


class Characters:
    """A set of characters, whose look-up takes time that does not grow with them."""

    __slots__ = ("_categories", "_firsts", "_ignores_case", "_is_negated", "_lasts")

    def __init__(
        self,
        ranges: Iterable[tuple[int, int]],
        categories: Iterable[tuple[str, bool]] = (),
        *,
        is_negated: bool = False,
        ignores_case: bool = False,
    ) -> None:
        """Hold `ranges`, and the characters of Unicode's `categories`, or all others than those."""
        merged: list[list[int]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], last)
            else:
                merged.append([first, last])
        self._firsts = [first for first, _ in merged]
        self._lasts = [last for _, last in merged]
        self._categories = tuple(dict.fromkeys(categories))
        self._is_negated = is_negated
        self._ignores_case = ignores_case

    def __contains__(self, character: str) -> bool:
        found = self._has(character)
        if not found and self._ignores_case:
            found = any(
                self._has(other)
                for other in (character.lower(), character.upper())
                if len(other) == 1 and other != character
            )
        return found is not self._is_negated

    def _has(self, character: str) -> bool:
        code = ord(character)
        position = bisect_right(self._firsts, code) - 1
        if position >= 0 and code <= self._lasts[position]:
            return True
        if not self._categories:
            return False
        category = unicodedata.category(character)
        return any(category.startswith(name) is not is_negated for name, is_negated in self._categories)


@dataclass(frozen=True, slots=True)
class One:
    """A character out of a set."""

    characters: Characters
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Position:
    """The beginning of the name, or its end."""

    is_start: bool
    weight: int = 2


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    items: "tuple[Node, ...]"
    weight: int


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    items: "tuple[Node, ...]"
    weight: int


@dataclass(frozen=True, slots=True)
class Repetition:
    """The same, from `lowest` to `highest` times; None is without a limit."""

    item: "Node"
    lowest: int
    highest: int | None
    weight: int


Node = One | Position | Sequence | Choice | Repetition


def sequence(items: "list[Node]") -> Node:
    """Return these, one after the other."""
    if len(items) == 1:
        return items[0]
    return Sequence(tuple(items), sum(max(1, each.weight) for each in items))


def choice(items: "list[Node]") -> Node:
    """Return one of these."""
    if len(items) == 1:
        return items[0]
    return Choice(tuple(items), 1 + sum(1 + each.weight for each in items))


def repetition(item: Node, lowest: int, highest: int | None) -> Node:
    """Return so many of these."""
    times = lowest + 1 if highest is None else highest
    return Repetition(item, lowest, highest, 2 + max(1, item.weight) * times)


_DIGITS: Ranges = ((0x30, 0x39),)
_SPACES: Ranges = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))
_WORDS: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_CLASSES: dict[str, Ranges] = {"d": _DIGITS, "s": _SPACES, "w": _WORDS}
_BRACES = re.compile("(?P<lowest>[0-9]++)(?P<comma>,?)(?P<highest>[0-9]*+)}")  # ++: they are read once.
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_POSIX: dict[str, Ranges] = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "ascii": ((0x00, 0x7F),),
    "blank": ((0x09, 0x09), (0x20, 0x20)),
    "cntrl": ((0x00, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGITS,
    "graph": ((0x21, 0x7E),),
    "lower": ((0x61, 0x7A),),
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x09, 0x0D), (0x20, 0x20)),
    "upper": ((0x41, 0x5A),),
    "word": _WORDS,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
_CATEGORIES = frozenset(
    ("C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl",
     "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs")
)  # fmt: skip


def outside(ranges: Ranges) -> Ranges:
    """Return all characters but these, which are in order."""
    found, begin = [], 0
    for first, last in ranges:
        if begin < first:
            found.append((begin, first - 1))
        begin = last + 1
    if begin <= HIGHEST:
        found.append((begin, HIGHEST))
    return tuple(found)


@dataclass(slots=True)
class _Flags:
    ignores_case: bool = False
    dot_has_newline: bool = False

    def copy(self) -> "_Flags":
        return _Flags(self.ignores_case, self.dot_has_newline)


@dataclass(slots=True)
class _Group:
    """An open group: its finished alternatives, and the current one."""

    flags: _Flags  # Those outside, which hold again behind it.
    choices: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def node(self) -> Node:
        return choice([*self.choices, sequence(self.items)])


@dataclass(slots=True)
class _Class:
    """The content of brackets so far."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    categories: list[tuple[str, bool]] = field(default_factory=list)


def parse(text: str) -> Node:
    """Return the tree. Raises: ValueError for an invalid expression, or one that is too large."""
    if len(text) > LENGTH_MAX:
        raise ValueError(f"it is longer than {LENGTH_MAX} characters")
    return _Parser(text).parse()


class _Parser:
    """Reads an expression once, from left to right, without recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = _Flags()
        self._groups = [_Group(self._flags)]
        self._may_repeat = False  # Whether the item before may be repeated.

    def parse(self) -> Node:
        while self._at < len(self._text):
            self._next()
        if len(self._groups) > 1:
            self._fail("missing )")
        return self._groups[0].node()

    def _fail(self, words: str) -> NoReturn:
        raise ValueError(f"{words} at position {self._at}")

    def _take(self) -> str:
        if self._at >= len(self._text):
            self._fail("it ends too early")
        character = self._text[self._at]
        self._at += 1
        return character

    def _takes(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False

    def _until(self, end: str) -> str:
        """Return the text before `end`, and skip both."""
        found = self._text.find(end, self._at)
        if found < 0:
            self._fail(f"missing {end}")
        text, self._at = self._text[self._at : found], found + len(end)
        return text

    # -- one thing after the other ------------------------------------------------------------------------

    def _next(self) -> None:
        character = self._take()
        if character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "|":
            group = self._groups[-1]
            group.choices.append(sequence(group.items))
            group.items = []
            self._may_repeat = False
        elif character in "*+?":
            self._repeat(0 if character != "+" else 1, 1 if character == "?" else None)
        elif character == "{" and self._braces():
            return
        elif character in "^$":
            self._add(Position(character == "^"))
        elif character == ".":
            ranges: Ranges = ((0, HIGHEST),) if self._flags.dot_has_newline else outside(((10, 10),))
            self._add(One(Characters(ranges)))
        elif character == "[":
            self._add(self._brackets())
        elif character == "\\":
            self._escape()
        else:
            self._literal(ord(character))

    def _add(self, node: Node) -> None:
        self._groups[-1].items.append(node)
        self._may_repeat = True

    def _literal(self, code: int) -> None:
        self._add(One(Characters(((code, code),), ignores_case=self._flags.ignores_case)))

    def _open(self) -> None:
        if len(self._groups) > NESTING_MAX:
            self._fail(f"more than {NESTING_MAX} groups within each other")
        before = self._flags
        if self._takes("?"):
            self._flags = before.copy()
            if self._takes("P<") or (not self._text.startswith(("<=", "<!"), self._at) and self._takes("<")):
                if not self._until(">").isidentifier():
                    self._fail("an invalid group name")
            elif self._set_flags():
                return  # They hold until the group around them ends.
        self._groups.append(_Group(before))
        self._may_repeat = False

    def _set_flags(self) -> bool:
        """Read flags; return whether the parentheses contain only flags."""
        is_on = True
        while True:
            character = self._take()
            if character in ":)":
                return character == ")"
            if character == "-" and is_on:
                is_on = False
            elif character == "i":
                self._flags.ignores_case = is_on
            elif character == "s":
                self._flags.dot_has_newline = is_on
            elif character != "U":  # Which of several ways is found does not matter to whether one is.
                self._fail(f"(?{character} is not supported")

    def _close(self) -> None:
        if len(self._groups) == 1:
            self._fail("unexpected )")
        group = self._groups.pop()
        self._flags = group.flags
        self._add(group.node())

    # -- repetitions --------------------------------------------------------------------------------------

    def _repeat(self, lowest: int, highest: int | None) -> None:
        items = self._groups[-1].items
        if not self._may_repeat or not items:
            self._fail("nothing to repeat")
        self._takes("?")  # As few as possible: it matches the same names.
        items.append(repetition(items.pop(), lowest, highest))
        self._may_repeat = False

    def _braces(self) -> bool:
        """Read `{n}`, `{n,}` or `{n,m}` behind the brace; return False where the brace is a character."""
        found = _BRACES.match(self._text, self._at)
        if found is None:
            return False
        first = _number(found["lowest"])
        last = first if not found["comma"] else _number(found["highest"]) if found["highest"] else None
        if max(first, last or 0) > REPETITIONS_MAX or (last is not None and last < first):
            self._fail(f"an invalid repetition: {REPETITIONS_MAX} is the most")
        self._at = found.end()
        self._repeat(first, last)
        return True

    # -- characters ---------------------------------------------------------------------------------------

    def _escape(self) -> None:
        character = self._take()
        if character in "Az":
            self._add(Position(character == "A"))
        elif character == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at :] if end < 0 else self._until("\\E")
            self._at = len(self._text) if end < 0 else self._at
            for each in quoted:
                self._literal(ord(each))
        elif character in "pP":
            categories = (self._category(is_negated=character == "P"),)
            self._add(One(Characters((), categories, ignores_case=self._flags.ignores_case)))
        elif character.lower() in _CLASSES:
            self._add(One(Characters(_class(character))))
        else:
            self._literal(self._code(character))

    def _code(self, character: str) -> int:
        """Return the character of an escape, whose first character has been read."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            digits = self._until("}") if self._takes("{") else self._take() + self._take()
            if not digits or len(digits) > 8 or set(digits) - set("0123456789abcdefABCDEF"):
                self._fail("an invalid \\x")
            if (code := int(digits, 16)) > HIGHEST:
                self._fail("an invalid \\x")
            return code
        if character == "0":
            digits = character
            while len(digits) < 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
                digits += self._take()
            return int(digits, 8)
        if character.isascii() and character.isalnum():
            self._fail(f"\\{character} is not supported")
        return ord(character)

    def _category(self, *, is_negated: bool) -> tuple[str, bool]:
        name = self._take()
        if name == "{":
            name = self._until("}")
        if name.startswith("^"):
            name, is_negated = name[1:], not is_negated
        if name not in _CATEGORIES:
            self._fail(f"\\p{{{name[:32]}}} is not supported")
        return name, is_negated

    def _brackets(self) -> Node:
        """Return the content of brackets, up to their end."""
        is_negated = self._takes("^")
        found, is_first = _Class(), True
        while is_first or not self._takes("]"):
            is_first = False
            self._into(found)
        return One(
            Characters(
                found.ranges,
                found.categories,
                is_negated=is_negated,
                ignores_case=self._flags.ignores_case,
            )
        )

    def _into(self, found: _Class) -> None:
        """Add the next item between the brackets."""
        if self._takes("[:"):
            is_negated = self._takes("^")
            name = self._until(":]")
            if name not in _POSIX:
                self._fail(f"[:{name[:32]}:] is not supported")
            found.ranges += outside(_POSIX[name]) if is_negated else _POSIX[name]
            return
        character = self._take()
        if character == "\\":
            character = self._take()
            if character in "pP":
                found.categories.append(self._category(is_negated=character == "P"))
                return
            if character.lower() in _CLASSES:
                found.ranges += _class(character)
                return
            first = self._code(character)
        else:
            first = ord(character)
        last = first
        if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in (
            "]",
            "",
        ):
            self._at += 1
            character = self._take()
            last = self._code(self._take()) if character == "\\" else ord(character)
            if last < first:
                self._fail("an invalid range of characters")
        found.ranges.append((first, last))


def _class(character: str) -> Ranges:
    """Return the characters of `\\d`, `\\D` and similar classes: ASCII, as in RE2."""
    ranges = _CLASSES[character.lower()]
    return outside(ranges) if character.isupper() else ranges


def _number(digits: str) -> int:
    """Return the number, or one that is too large: thousands of digits are not evaluated."""
    return int(digits) if len(digits) <= len(str(REPETITIONS_MAX)) else REPETITIONS_MAX + 1
