"""Arguments that are given one by one, where other clients take a list."""

from collections.abc import Iterable
from typing import TypeVar

Argument = TypeVar("Argument")


def one_by_one(given: Iterable[Argument], kind: type, called: str) -> tuple[Argument, ...]:
    """Return the arguments as they are. Raises: TypeError, which says how several are given."""
    arguments = tuple(given)
    for each in arguments:
        if not isinstance(each, kind):
            raise TypeError(
                f"{called} takes its arguments one by one, as {called}(a, b) or {called}(*several),"
                f" not in a {type(each).__name__}: {each!r}"
            )
    return arguments
