"""Regular expressions whose matching takes time linear in the name, for any expression of a client.

Kafka uses RE2's for the same reason; `pattern_syntax` has the supported part. A name has to match as
a whole. Work is counted before it is done: an expression with too many states is refused before one of them
is built, and matching gives up after too many visited states.
"""

from collections.abc import Iterable

from kohort.broker.group.consumer.pattern_syntax import (
    Characters,
    Choice,
    Node,
    One,
    Position,
    Repetition,
    Sequence,
    parse,
)

STATES_MAX = 5_000
CACHED_MAX = 10_000
WORK_MAX, WORK_PER_NAME = 20_000, 20
"""The maximum number of visited states, about a microsecond each, and the additional ones for each name."""
CHARACTERS_PER_WORK = 16
"""So many characters of a name cost as much as a state, if the states after them are known."""
Edge = tuple[Characters | None, int]
"""A set of characters, or None for none needed, and the state behind it."""


class TooMuchWork(ValueError):
    """An expression takes longer to match than any useful one."""


class Pattern:
    """An expression as an automaton; sets of states are cached: a character costs a look-up."""

    def __init__(self, text: str) -> None:
        """Raises: ValueError for an invalid expression, or one that cannot be matched in linear time."""
        tree = parse(text)
        if tree.weight >= STATES_MAX:
            raise ValueError(f"it stands for more than {STATES_MAX} states")
        self._edges: list[list[Edge]] = [[]]
        self._starts: set[int] = set()  # States that can be passed only at the beginning of a name ...
        self._ends: set[int] = set()  # ... and only at its end.
        self._accepting = self._build(tree, 0)
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._work_left = WORK_MAX
        self._initial = self._closure({0}, is_start=True)

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches. Raises: TooMuchWork."""
        self._work_left += WORK_PER_NAME - len(name) // CHARACTERS_PER_WORK
        if self._work_left < 0:
            raise TooMuchWork("it takes too long to match")
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
        found: set[int] = set()
        known: dict[int, bool] = {}  # A repetition has the same characters in many states.
        for state in states:
            for characters, target in self._edges[state]:
                if characters is not None:
                    fits = known.get(id(characters))
                    if fits is None:
                        fits = known[id(characters)] = character in characters
                    if fits:
                        found.add(target)
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
            waiting += [target for characters, target in self._edges[state] if characters is None]
        self._work_left -= len(closed)
        return frozenset(closed)

    # Each of these builds from a state, and returns the state after what it has built.

    def _state(self) -> int:
        self._edges.append([])
        assert len(self._edges) <= STATES_MAX, "the tree weighs less than it takes"
        return len(self._edges) - 1

    def _build(self, node: Node, begin: int) -> int:
        if isinstance(node, One):
            end = self._state()
            self._edges[begin].append((node.characters, end))
            return end
        if isinstance(node, Sequence):
            for each in node.items:
                begin = self._build(each, begin)
            return begin
        if isinstance(node, Repetition):
            return self._repeat(node, begin)
        if isinstance(node, Choice):
            return self._choose(node, begin)
        return self._position(node, begin)

    def _choose(self, node: Choice, begin: int) -> int:
        end = self._state()
        for each in node.items:
            first = self._state()
            self._edges[begin].append((None, first))
            self._edges[self._build(each, first)].append((None, end))
        return end

    def _repeat(self, node: Repetition, begin: int) -> int:
        for _ in range(node.lowest):
            begin = self._build(node.item, begin)
        end = self._state()
        if node.highest is None:
            loop = self._state()
            self._edges[begin].append((None, loop))
            self._edges[self._build(node.item, loop)].append((None, loop))
            self._edges[loop].append((None, end))
            return end
        for _ in range(node.highest - node.lowest):
            self._edges[begin].append((None, end))
            begin = self._build(node.item, begin)
        self._edges[begin].append((None, end))
        return end

    def _position(self, node: Position, begin: int) -> int:
        here = self._state()
        self._edges[begin].append((None, here))
        (self._starts if node.is_start else self._ends).add(here)
        end = self._state()
        self._edges[here].append((None, end))
        return end
