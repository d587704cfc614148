"""Version ranges as Kafka's schemas write them: `0-4`, `3+`, `2`, `none`."""

import sys
from typing import NamedTuple

MAX_VERSION = sys.maxsize


class Versions(NamedTuple):
    """The inclusive range from `lowest` to `highest`; empty if `highest` is less."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Return the parsed range. Raises: ValueError."""
        if text == "none":
            return NONE
        if text.endswith("+"):
            return cls(int(text[:-1]), MAX_VERSION)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __str__(self) -> str:
        if self.highest < self.lowest:
            return "none"
        if self.highest == MAX_VERSION:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


NONE = Versions(0, -1)
ALL = Versions(0, MAX_VERSION)
