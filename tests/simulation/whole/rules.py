"""Rules that are checked, and how often each was."""

from collections import Counter


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
