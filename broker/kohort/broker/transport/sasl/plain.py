"""PLAIN: a name and its password, as RFC 4616 has them between zeros. Pure.

Source: Kafka's PlainSaslServer and PlainServerCallbackHandler.
"""

import hashlib
from collections.abc import Mapping
from hmac import compare_digest

from kohort.broker.transport.sasl.conversation import Refused, Step

_TOLD = "Authentication failed: Invalid username or password"


class Plain:
    """Takes the one token that there is."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user = ""

    def take(self, token: bytes, /) -> Step:
        """Return who it is. Raises: Refused."""
        try:
            other, name, password = token.decode().split("\0")
        except ValueError:
            raise Refused("a token that is not that of PLAIN") from None
        if not name or not password:
            raise Refused("a token without a name or a password")
        self.user = name
        known = self._users.get(name)
        # Digests are of one length, and compared whether there is such a user or not.
        is_right = compare_digest(_digest(password), _digest(known or ""))
        if known is None:
            raise Refused("there is no such user", _TOLD)
        if not is_right:
            raise Refused(f"the password is not that of {name}", _TOLD)
        if other not in ("", name):
            raise Refused(f"{name} wants to act for another")
        return Step(b"", name)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
