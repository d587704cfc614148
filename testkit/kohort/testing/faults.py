"""The faults that a test injects."""

from collections.abc import Callable
from dataclasses import dataclass

from kohort.protocol.errors import ErrorCode
from kohort.testing.requests import SeenRequest, check_api


@dataclass(slots=True)
class Fault:
    """What to do to the next requests of an API.

    With `code` the response is an error. With `seconds` the request is delayed. With neither the connection
    is closed: before the request is executed, or with `is_torn` in the middle of the response.
    """

    api: str
    times: int
    client_id: str | None = None
    code: ErrorCode | None = None
    seconds: float | None = None
    member_id: str | None = None
    """Only requests of this group member, if given."""
    is_torn: bool = False

    def matches(self, request: SeenRequest) -> bool:
        """Whether the fault applies to the request."""
        return (
            self.times > 0
            and self.api == request.api
            and (self.client_id is None or self.client_id == request.client_id)
            and (self.member_id is None or self.member_id == getattr(request.message, "member_id", None))
        )

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"delayed for {self.seconds} s"
        if self.is_torn:
            return "answer torn"
        return "connection closed" if self.code is None else f"answered {self.code.name} by order"


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

    def take(self, request: SeenRequest, *, delays: bool) -> Fault | None:
        """Take and return the oldest fault for the request, a delay or another one, or None."""
        fault = self._find(request, lambda each: (each.seconds is not None) is delays)
        if fault is not None:
            fault.times -= 1
            if not fault.times:
                self._orders.remove(fault)
            request.fault = ", ".join(filter(None, (request.fault, str(fault))))
        return fault

    def failure_for(self, request: SeenRequest) -> Fault | None:
        """Return the fault that `take` would return, without taking it."""
        return self._find(request, lambda each: each.seconds is None)

    def _find(self, request: SeenRequest, wanted: Callable[[Fault], bool]) -> Fault | None:
        return next((each for each in list(self._orders) if wanted(each) and each.matches(request)), None)

    def clear(self) -> None:
        """Remove every fault."""
        self._orders.clear()
