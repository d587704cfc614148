"""What a mechanism is: tokens in, answers out, and at the end who it is or why not. Pure."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Refused(Exception):
    """A client is not who it says, or does not say it as it must.

    The text is for the log, `told` for the client. Neither has a secret in it.
    """

    def __init__(self, reason: str, told: str = "") -> None:
        super().__init__(reason)
        self.told = told or "Authentication failed"


class Step(NamedTuple):
    """What a token has led to; without a `user` the mechanism goes on."""

    answer: bytes
    user: str = ""
    expires_ms: int | None = None
    """Until when, by wall time, what the client has shown is good; None sets no end."""


class Conversation(Protocol):
    """One attempt of one client."""

    user: str
    """Who it says that it is, as soon as that is known; empty where that is no secret's to show."""

    def take(self, token: bytes, /) -> Step:
        """Return what the client's next token leads to. Raises: Refused."""
        ...


Mechanism = Callable[[], Conversation]
"""Begins a conversation."""
