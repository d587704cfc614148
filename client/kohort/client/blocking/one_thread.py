"""Detects two threads in one consumer at once, where each would get the other's data. Uses no lock.

The consumer has the id of the thread in a call. The same thread may enter
again: a listener commits inside a poll, a signal handler closes. Source: Kafka's KafkaConsumer.acquire.
"""

import threading
from collections.abc import Callable
from functools import update_wrapper
from threading import get_ident
from typing import Concatenate, ParamSpec, TypeVar

from kohort.client.errors import ConcurrentAccessError

NOBODY = 0


class OneThread:
    """Has methods that only one thread at a time may enter."""

    def __init__(self) -> None:
        self._inside = NOBODY


Self = TypeVar("Self", bound=OneThread)
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def by_one_thread(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """Return a method that raises ConcurrentAccessError while another thread is in one like it.

    Between the look and the mark there is no call, and so no other thread under the interpreter's lock.
    """

    def guarded(self: Self, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        me = get_ident()
        inside = self._inside
        if inside not in (NOBODY, me):
            raise in_use(inside)
        try:
            self._inside = me
            return method(self, *args, **kwargs)
        finally:
            self._inside = inside

    return update_wrapper(guarded, method)


def in_use(inside: int) -> ConcurrentAccessError:
    """Return the error for a thread that enters while another one is inside."""
    names = [each.name for each in threading.enumerate() if each.ident == inside]
    who = repr(names[0]) if names else "another thread"
    return ConcurrentAccessError(
        f"{who} is in a call of this consumer: it belongs to one thread at a time. wakeup() ends a poll from"
        " any other; give each thread a consumer of its own, or let one poll for all"
    )
