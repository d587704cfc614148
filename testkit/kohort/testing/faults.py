"""What a test has ordered to go wrong."""

from collections.abc import Callable
from dataclasses import dataclass

from kohort.protocol.errors import ErrorCode
from kohort.testing.requests import SeenRequest, check_api


@dataclass(slots=True)
class Fault:
    """One order: what to do to the next requests of an API.

    `code` answers an error, `seconds` lets the request wait; neither closes the connection before the
    request is looked at, or where `is_torn` in the middle of its answer.
    """

    api: str
    times: int
    client_id: str | None = None
    code: ErrorCode | None = None
    seconds: float | None = None
    member_id: str | None = None
    """The member of a group that has to ask, if it is about one."""
    is_torn: bool = False

    def matches(self, request: SeenRequest) -> bool:
        """Whether the order is for such a request."""
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
    """The orders that stand. The loop's thread takes them, any thread gives them."""

    def __init__(self) -> None:
        self._orders: list[Fault] = []

    def order(self, fault: Fault) -> None:
        """Add an order behind those that stand. Raises: ValueError for an API that there is not."""
        check_api(fault.api)
        if fault.times < 1:
            raise ValueError(f"times must be 1 or more, not {fault.times}")
        self._orders.append(fault)

    def take(self, request: SeenRequest, *, delays: bool) -> Fault | None:
        """Return the oldest order of this kind for the request, and count it as carried out, or None."""
        fault = self._find(request, lambda each: (each.seconds is not None) is delays)
        if fault is not None:
            fault.times -= 1
            if not fault.times:
                self._orders.remove(fault)
            request.fault = ", ".join(filter(None, (request.fault, str(fault))))
        return fault

    def failure_for(self, request: SeenRequest) -> Fault | None:
        """Return the order that `take` would, without counting it."""
        return self._find(request, lambda each: each.seconds is None)

    def _find(self, request: SeenRequest, wanted: Callable[[Fault], bool]) -> Fault | None:
        return next((each for each in list(self._orders) if wanted(each) and each.matches(request)), None)

    def clear(self) -> None:
        """Forget every order."""
        self._orders.clear()
