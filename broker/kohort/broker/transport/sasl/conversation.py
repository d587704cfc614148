"""The interface of SASL mechanisms: they take tokens, and return answers and finally the user. Pure."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Refused(Exception):
    """An authentication has failed.

    The text is for the log, `told` for the client. Neither contains a secret.
    """

    def __init__(self, reason: str, told: str = "") -> None:
        super().__init__(reason)
        self.told = told or "Authentication failed"


class Step(NamedTuple):
    """The result of a token. Without a `user` the authentication continues."""

    answer: bytes
    user: str = ""
    expires_ms: int | None = None
    """The expiry of the client's credentials, in wall time; None for no expiry."""


class Conversation(Protocol):
    """One authentication attempt of a client."""

    user: str
    """The claimed user, as soon as it is known; empty if no password is involved."""

    def take(self, token: bytes, /) -> Step:
        """Return the result of the client's next token. Raises: Refused."""
        ...


Mechanism = Callable[[], Conversation]
"""Begins a conversation."""
