"""Arguments by the habit of other clients, refused with a word on how they are given here."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

Argument = TypeVar("Argument")


def one_by_one(given: Iterable[Argument], kind: type, called: str) -> tuple[Argument, ...]:
    """Return the arguments as they are. Raises: TypeError, which says how several are given."""
    arguments = tuple(given)
    for each in arguments:
        if isinstance(each, Mapping):
            raise TypeError(
                f"settings are given by name: {called}(bootstrap_servers=...), not in a dictionary"
            )
        if not isinstance(each, kind):
            raise TypeError(
                f"{called} takes its arguments one by one, as {called}(a, b) or {called}(*several),"
                f" not in a {type(each).__name__}: {each!r}"
            )
    return arguments


def by_name_alone(given: tuple[object, ...], example: str) -> None:
    """Return if nothing was given without a name. Raises: TypeError with an example of how it is given."""
    if given:
        raise TypeError(
            f"what is given here has a name, and times are in milliseconds: {example}, not {given[0]!r}"
        )


def check_listener(listener: object) -> None:
    """Return if it can hear of partitions. Raises: TypeError, which says what it needs."""
    missing = [each for each in _HEARD if not callable(getattr(listener, each, None))]
    if missing:
        raise TypeError(
            f"a listener has on_assigned, on_revoked and on_lost, each of which takes the partitions: inherit"
            f" from RebalanceListener; {type(listener).__name__} lacks {', '.join(missing)}"
        )


_HEARD = ("on_assigned", "on_revoked", "on_lost")
