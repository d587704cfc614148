"""Parts of a broker's pages that have a state and a task: each is made once, at the first request."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from kohort.broker.runtime.supervisor import Part, Supervisor


class Runs(Protocol):
    """A part that has a task of its own."""

    def run(self, part: "Part") -> Awaitable[object]:
        """Run until cancelled."""
        ...


T = TypeVar("T", bound=Runs)


class PageParts:
    """The parts of one broker's pages by their names. The loop's thread only."""

    def __init__(self, supervisor: "Supervisor") -> None:
        self._supervisor = supervisor
        self._parts: dict[str, Any] = {}

    def part(self, name: str, make: Callable[[], T]) -> T:
        """Return the part of that name. The first call makes and starts it."""
        found: T | None = self._parts.get(name)
        if found is None:
            found = self._parts[name] = make()
            self._supervisor.start(name, found.run)
        return found
