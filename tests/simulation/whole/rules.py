"""Rules that are checked, and how often each was."""

from collections import Counter
from collections.abc import Callable

from kohort.testing.simulation import World
from kohort.testing.simulation.world import NotReached


class Violation(AssertionError):
    """Something that a broker has promised does not hold."""


class Rules:
    """Counts what is checked."""

    def __init__(self) -> None:
        self.checked: Counter[str] = Counter()

    def hold(self, rule: str, holds: bool, found: object) -> None:
        """Count the rule. Raises: Violation if it does not hold."""
        self.checked[rule] += 1
        if not holds:
            raise Violation(f"{rule}: {str(found)[:500]}")

    async def hold_within(
        self, world: World, rule: str, unfinished: Callable[[], object], virtual_seconds: float
    ) -> None:
        """Return once nothing is unfinished. Raises: Violation, with what is, if something is in the end."""
        try:
            await world.until(lambda: not unfinished(), virtual_seconds)
        except NotReached:
            self.hold(rule, False, unfinished())
        else:
            self.hold(rule, True, None)
