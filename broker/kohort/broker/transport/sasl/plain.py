"""PLAIN (RFC 4616): user name and password, separated by zero bytes. Pure.

Source: Kafka's PlainSaslServer and PlainServerCallbackHandler.
"""

import hashlib
from collections.abc import Mapping
from hmac import compare_digest

from kohort.broker.transport.sasl.conversation import Refused, Step

_TOLD = "Authentication failed: Invalid username or password"


class Plain:
    """One authentication with one token."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user = ""

    def take(self, token: bytes, /) -> Step:
        """Return the user. Raises: Refused."""
        try:
            other, name, password = token.decode().split("\0")
        except ValueError:
            raise Refused("a token that is not that of PLAIN") from None
        if not name or not password:
            raise Refused("a token without a name or a password")
        self.user = name
        known = self._users.get(name)
        # Digests have the same length, and are compared also for unknown users: timing shows nothing.
        is_right = compare_digest(_digest(password), _digest(known or ""))
        if known is None:
            raise Refused("there is no such user", _TOLD)
        if not is_right:
            raise Refused(f"the password is not that of {name}", _TOLD)
        if other not in ("", name):
            raise Refused(f"{name} wants to act for another user")
        return Step(b"", name)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
