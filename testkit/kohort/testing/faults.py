"""The faults that a test injects."""

from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from kohort.broker.transport.request import Request
from kohort.protocol.errors import ErrorCode
from kohort.protocol.schema import Message
from kohort.testing.requests import SeenRequest, check_api

Answer = Message | Awaitable[Message | None] | None


class Holder(Protocol):
    """Holds requests until the test releases them."""

    def add(self, asked: "PausedRequest") -> None:
        """Hold the request."""
        ...

    def drop(self, asked: "PausedRequest") -> None:
        """Forget the request: its connection has closed."""
        ...


@dataclass(slots=True, eq=False)
class Fault:
    """What to do to the next requests of an API.

    With `seconds` or a `hold` the request waits. With `code` the response is an error. Otherwise the
    connection is closed: before the request is executed, or with `is_torn` in the middle of the response.
    """

    api: str
    times: int
    client_id: str | None = None
    code: ErrorCode | None = None
    seconds: float | None = None
    member_id: str | None = None
    """Only requests of this group member, if given."""
    is_torn: bool = False
    hold: Holder | None = None
    """What holds requests until the test releases them. It ends with its block, not after `times`."""

    @property
    def is_pause(self) -> bool:
        """Whether the request waits, and is executed afterwards."""
        return self.seconds is not None or self.hold is not None

    def matches(self, request: SeenRequest) -> bool:
        """Whether the fault applies to the request."""
        return (
            self.times > 0
            and self.api == request.api
            and (self.client_id is None or self.client_id == request.client_id)
            and (self.member_id is None or self.member_id == getattr(request.message, "member_id", None))
        )

    def __str__(self) -> str:
        if self.hold is not None:
            return "held"
        if self.seconds is not None:
            return f"delayed for {self.seconds} s"
        if self.is_torn:
            return "answer torn"
        return "connection closed" if self.code is None else f"answered {self.code.name} by order"


class PausedRequest:
    """A request that waits. `execute` passes it to its handler."""

    def __init__(self, seen: SeenRequest, request: Request, execute: Callable[[], Answer]) -> None:
        self.seen = seen
        self.request = request
        self.execute = execute
        self.passed: set[Fault] = set()
        """The delays and holds for which it waits or has waited."""
        self.holder: Holder | None = None
        """What holds it now."""


class Faults:
    """The pending faults. Any thread adds them; the loop's thread takes them."""

    def __init__(self) -> None:
        self._orders: list[Fault] = []

    def order(self, fault: Fault) -> None:
        """Append a fault. Raises: ValueError for an unknown API."""
        check_api(fault.api)
        if fault.times < 1:
            raise ValueError(f"times is {fault.times}: give 1 or more")
        self._orders.append(fault)

    def take_pause(self, request: SeenRequest, passed: AbstractSet[Fault]) -> Fault | None:
        """Take and return the oldest delay or hold for a request that has waited for those in `passed`.

        A request waits for every hold that matches, but for one delay only.
        """
        was_delayed = any(each.seconds is not None for each in passed)
        fault = self._find(
            request,
            lambda each: (
                each not in passed
                and (each.hold is not None or (each.seconds is not None and not was_delayed))
            ),
        )
        if fault is not None:
            self._take(fault, request)
        return fault

    def take_failure(self, request: SeenRequest) -> None:
        """Take the failure that `failure_for` returns."""
        fault = self.failure_for(request)
        if fault is not None:
            self._take(fault, request)

    def failure_for(self, request: SeenRequest) -> Fault | None:
        """Return the oldest failure for the request, or None, without taking it."""
        return self._find(request, lambda each: not each.is_pause)

    def _find(self, request: SeenRequest, wanted: Callable[[Fault], bool]) -> Fault | None:
        return next((each for each in list(self._orders) if wanted(each) and each.matches(request)), None)

    def _take(self, fault: Fault, request: SeenRequest) -> None:
        request.fault = ", ".join(filter(None, (request.fault, str(fault))))
        if fault.hold is None:
            fault.times -= 1
            if not fault.times:
                self.withdraw(fault)

    def withdraw(self, fault: Fault) -> None:
        """Remove a fault, if it is pending."""
        with suppress(ValueError):
            self._orders.remove(fault)

    def clear(self) -> None:
        """Remove every fault, except holds: they end with their blocks."""
        self._orders[:] = [each for each in self._orders if each.hold is not None]
