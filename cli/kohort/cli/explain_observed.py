"""`kohort groups explain --http` where `kohort observe` answers: causes with how sure they are."""

import sys
from collections.abc import Callable, Iterable

import msgspec

from kohort.broker.explain.digest import digest, of_explanations
from kohort.broker.explain.findings import Explanation
from kohort.broker.explain.observed.story import observed_story
from kohort.broker.explain.story import clock_time
from kohort.cli.output import print_encoded, print_line

PAGES_MAX = 50
"""At most so many answers are read: 100,000 events."""


class Answer(msgspec.Struct):
    """What the observer answers. What was before `explained_since_ms` takes another question."""

    observed: tuple[Explanation, ...]
    cannot_know: tuple[str, ...] = ()
    explained_since_ms: int | None = None


def answer_of(body: bytes) -> Answer:
    """Return an answer from its body."""
    return msgspec.json.decode(body, type=Answer)


def read_since(ask: Callable[[str], bytes], since_ms: int) -> Answer:
    """Return all that happened since a time. Each answer has a part of it, the newest comes first.

    `ask` returns the body of the answer to a query.
    """
    newest = answer = answer_of(ask(f"?since_ms={since_ms}"))
    told = [*answer.observed]
    for _ in range(PAGES_MAX - 1):
        if answer.explained_since_ms is None:
            break
        answer = answer_of(ask(f"?since_ms={since_ms}&until_ms={answer.explained_since_ms}"))
        told += answer.observed
    told.sort(key=lambda each: each.started_ms)
    return msgspec.structs.replace(answer, observed=tuple(told), cannot_know=newest.cannot_know)


class ObservedTelling:
    """Prints what the observer knows of a group, and then what is new."""

    def __init__(self, group_id: str, *, as_json: bool, since_ms: int | None = None) -> None:
        self.group_id = group_id
        self._since_ms = since_ms
        self._as_json = as_json
        self._shown_ends_ms: dict[int, int] = {}

    def all(self, answer: Answer, last: int) -> None:
        """Print the newest explanations."""
        told = answer.observed[-last:] if self._since_ms is None else answer.observed
        if self._as_json:
            content = {"group_id": self.group_id, "observed": told, "cannot_know": answer.cannot_know}
            print_encoded(msgspec.json.encode(content))
        else:
            self._print_all(told)
            if self._since_ms is not None and answer.explained_since_ms is not None:
                print_line(f"What was before {clock_time(answer.explained_since_ms)} is too much to tell.")
            for each in answer.cannot_know:
                print_line(f"Not known: {each}")
            sys.stdout.flush()
        self._shown_ends_ms = {each.started_ms: each.ended_ms for each in answer.observed}

    def news(self, body: bytes) -> None:
        """Print what is new, or has gone on, since the last time."""
        answer = answer_of(body)
        new = [
            each
            for each in answer.observed
            if self._shown_ends_ms.get(each.started_ms) != each.ended_ms
            and each.ended_ms >= (self._since_ms or 0)
        ]
        self._shown_ends_ms = {each.started_ms: each.ended_ms for each in answer.observed}
        if self._as_json:
            for each in new:
                print_encoded(msgspec.json.encode(each))
        else:
            self._print(new)
        sys.stdout.flush()

    def _print_all(self, told: tuple[Explanation, ...]) -> None:
        if self._since_ms is not None:
            for line in digest(self.group_id, of_explanations(told), self._since_ms):
                print_line(line)
        elif not told:
            print_line(f"{self.group_id}: nothing has happened since it is observed.")
        else:
            self._print(told)

    def _print(self, explanations: Iterable[Explanation]) -> None:
        for each in explanations:
            for line in observed_story(each):
                print_line(line)
            print_line()
