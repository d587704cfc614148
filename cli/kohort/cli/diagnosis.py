"""What `kohort doctor` finds."""

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, how it is, and what to do about it."""

    subject: str
    level: Level
    text: str
    advice: str = ""

    def as_json(self) -> dict[str, str]:
        """Return it as plain values."""
        return {
            "subject": self.subject,
            "level": self.level.value,
            "text": self.text,
            "advice": self.advice,
        }
