"""Gives trio and anyio sets that keep the order of insertion.

Both keep tasks and cancel scopes in sets, and go through these when they cancel. The order of such a set
comes from the addresses of its members, so it would differ from run to run.
"""

from collections.abc import Iterable
from itertools import count
from typing import Any, TypeVar

import anyio._backends._asyncio
from trio._core import _run

T = TypeVar("T")


class OrderedSet(dict[T, None]):
    """The part of a set that trio and anyio use, in the order of insertion."""

    def __init__(self, members: Iterable[T] = ()) -> None:
        if members:
            self.update(dict.fromkeys(members))

    add = dict.setdefault
    remove = dict.__delitem__

    def discard(self, member: T) -> None:
        """Remove a member if it is there."""
        self.pop(member, None)


def put_orders() -> None:
    """Let all cancel scopes, nurseries and deadlines made from now on have an order."""
    modules: list[Any] = [_run, anyio._backends._asyncio]
    for module in modules:
        module.set = OrderedSet  # What `set()` means in the module's functions.
    trio_run: Any = _run
    numbers = count()
    trio_run.id = lambda _object: next(numbers)  # Says which of two equal deadlines is the first.
    factories = _run.CancelStatus.__init__.__globals__
    for name in ("__attr_factory__children", "__attr_factory__tasks"):
        assert factories[name] in {set, OrderedSet}
        factories[name] = OrderedSet
