"""Regular expressions whose matching takes time linear in the name, whatever a client has written.

Kafka takes RE2's for the same reason. The syntax here is Python's, without what needs looking back or around:
groups by number, assertions, atomic and possessive parts are refused. A name has to match as a whole.
"""

import re
from collections.abc import Iterable
from re import _constants as sre  # type: ignore[attr-defined]  # The parser of `re`, which is not declared.
from re import _parser  # type: ignore[attr-defined]
from typing import Any

STATES_MAX = 10_000
PATTERN_LENGTH_MAX = 4_096
CACHED_MAX = 10_000
WORK_MAX, WORK_PER_NAME = 80_000, 20
"""So many states may be looked at in all, about a microsecond each, and so many more for each name."""
Edge = tuple[re.Pattern[str] | None, int]
"""A character class, or None for none needed, and the state behind it."""


class TooMuchWork(ValueError):
    """An expression takes longer to match than any that is meant to find something."""


class Pattern:
    """An expression as an automaton; sets of states are remembered: a character costs a look-up."""

    def __init__(self, text: str) -> None:
        """Raises: ValueError for what is no expression, or none that can be matched in linear time."""
        if len(text) > PATTERN_LENGTH_MAX:
            raise ValueError("it is too long")
        try:
            parsed = _parser.parse(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(str(error)) from None
        self._flags = parsed.state.flags & (re.IGNORECASE | re.DOTALL | re.ASCII | re.UNICODE)
        self._edges: list[list[Edge]] = [[]]
        self._starts: set[int] = set()  # States that can be passed only at the beginning of a name ...
        self._ends: set[int] = set()  # ... and only at its end.
        self._accepting = self._sequence(parsed, 0)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._work_left = WORK_MAX
        self._initial = self._closure({0}, is_start=True)

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches. Raises: TooMuchWork."""
        self._work_left += WORK_PER_NAME
        states = self._initial
        for character in name:
            key = (states, character)
            after = self._steps.get(key)
            if after is None:
                if self._work_left < 0:
                    raise TooMuchWork("it takes too long to match")
                after = self._step(states, character)
                if len(self._steps) >= CACHED_MAX:
                    self._steps.clear()
                self._steps[key] = after
            states = after
            if not states:
                return False
        return self._accepting in self._closure(states, is_start=not name, is_end=True)

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        self._work_left -= len(states)
        found = {
            target
            for state in states
            for kind, target in self._edges[state]
            if kind is not None and kind.fullmatch(character)
        }
        return self._closure(found)

    def _closure(
        self, states: Iterable[int], *, is_start: bool = False, is_end: bool = False
    ) -> frozenset[int]:
        closed: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in closed:
                continue
            closed.add(state)
            if (state in self._starts and not is_start) or (state in self._ends and not is_end):
                continue
            waiting += [target for kind, target in self._edges[state] if kind is None]
        self._work_left -= len(closed)
        return frozenset(closed)

    # Each of these builds from a state on, and returns the state behind what it has built.

    def _state(self) -> int:
        if len(self._edges) >= STATES_MAX:
            raise ValueError("it is too large")
        self._edges.append([])
        return len(self._edges) - 1

    def _sequence(self, items: Iterable[tuple[Any, Any]], begin: int) -> int:
        for op, argument in items:
            begin = self._item(op, argument, begin)
        return begin

    def _item(self, op: Any, argument: Any, begin: int) -> int:
        if op is sre.SUBPATTERN:
            _, added, removed, items = argument
            if added or removed:
                raise ValueError("flags within an expression are not supported")
            return self._sequence(items, begin)
        if op is sre.BRANCH:
            end = self._state()
            for items in argument[1]:
                first = self._state()
                self._edges[begin].append((None, first))
                self._edges[self._sequence(items, first)].append((None, end))
            return end
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeat(argument, begin)
        if op is sre.AT:
            return self._position(argument, begin)
        end = self._state()
        self._edges[begin].append((self._one_character(op, argument), end))
        return end

    def _repeat(self, argument: Any, begin: int) -> int:
        lowest, highest, items = argument
        for _ in range(lowest):
            begin = self._sequence(items, begin)
        end = self._state()
        if highest == sre.MAXREPEAT:
            loop = self._state()
            self._edges[begin].append((None, loop))
            self._edges[self._sequence(items, loop)].append((None, loop))
            self._edges[loop].append((None, end))
            return end
        for _ in range(highest - lowest):
            self._edges[begin].append((None, end))
            begin = self._sequence(items, begin)
        self._edges[begin].append((None, end))
        return end

    def _position(self, where: Any, begin: int) -> int:
        if where not in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING, sre.AT_END, sre.AT_END_STRING):
            raise ValueError("word boundaries are not supported")
        here = self._state()
        self._edges[begin].append((None, here))
        is_start = where in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
        (self._starts if is_start else self._ends).add(here)
        end = self._state()
        self._edges[here].append((None, end))
        return end

    def _one_character(self, op: Any, argument: Any) -> re.Pattern[str]:
        if op is sre.LITERAL:
            text = re.escape(chr(argument))
        elif op is sre.NOT_LITERAL:
            text = f"[^{re.escape(chr(argument))}]"
        elif op is sre.ANY:
            text = "."
        elif op is sre.IN:
            text = "".join(map(_in_brackets, argument))
            text = f"[^{text[1:]}]" if argument[0][0] is sre.NEGATE else f"[{text}]"
        else:
            raise ValueError(f"{str(op).lower().replace('_', ' ')} is not supported")
        return re.compile(text, self._flags)


_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


def _in_brackets(item: tuple[Any, Any]) -> str:
    op, argument = item
    if op is sre.NEGATE:
        return "^"
    if op is sre.LITERAL:
        return re.escape(chr(argument))
    if op is sre.RANGE:
        return f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
    return _CATEGORIES[argument]
