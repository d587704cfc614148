"""`kohort groups explain --http` where `kohort observe` answers: causes with how sure they are."""

import sys
from collections.abc import Iterable

import msgspec

from kohort.broker.explain.digest import digest, of_explanations
from kohort.broker.explain.findings import Explanation
from kohort.broker.explain.observed.story import observed_story
from kohort.cli.output import print_encoded, print_line


class _Answer(msgspec.Struct):
    observed: tuple[Explanation, ...]
    cannot_know: tuple[str, ...] = ()


class ObservedTelling:
    """Prints what the observer knows of a group, and then what is new."""

    def __init__(self, group_id: str, *, as_json: bool, since_ms: int | None = None) -> None:
        self.group_id = group_id
        self._since_ms = since_ms
        self._as_json = as_json
        self._shown_ends_ms: dict[int, int] = {}

    def all(self, body: bytes, last: int) -> None:
        """Print the newest explanations."""
        answer = msgspec.json.decode(body, type=_Answer)
        told = answer.observed[-last:] if self._since_ms is None else answer.observed
        if self._as_json:
            content = {"group_id": self.group_id, "observed": told, "cannot_know": answer.cannot_know}
            print_encoded(msgspec.json.encode(content))
        else:
            self._print_all(told)
            for each in answer.cannot_know:
                print_line(f"Not known: {each}")
            sys.stdout.flush()
        self._shown_ends_ms = {each.started_ms: each.ended_ms for each in answer.observed}

    def news(self, body: bytes) -> None:
        """Print what is new, or has gone on, since the last time."""
        answer = msgspec.json.decode(body, type=_Answer)
        new = [each for each in answer.observed if self._shown_ends_ms.get(each.started_ms) != each.ended_ms]
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
