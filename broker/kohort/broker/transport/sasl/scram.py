"""SCRAM as a conversation with a broker, which keeps nothing that could stand for a password.

Source: Kafka's ScramSaslServer and ScramServerCallbackHandler.
"""

from collections.abc import Callable
from hashlib import new
from hmac import digest

from kohort.broker.transport.sasl.conversation import Refused, Step
from kohort.protocol.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramError,
    ScramMechanism,
    ScramServer,
    client_first,
    salt_of,
)

Lookup = Callable[[str], ScramCredential | None]
"""Finds what is kept of a user's password."""


def made_up_salt(secret: bytes, user: str) -> bytes:
    """Return the one salt of a user that there is not, or whose password stands in the settings."""
    return salt_of(digest(secret, user.encode(), "sha512"))


class Scram:
    """Takes two tokens. A user that there is not hears the same as one with another password, as late."""

    def __init__(self, mechanism: ScramMechanism, lookup: Lookup, nonce: str, secret: bytes) -> None:
        """`secret` is the brokers' own: by it users that there are not have the same salt at all of them."""
        self._mechanism = mechanism
        self._lookup = lookup
        self._nonce = nonce
        self._secret = secret
        self._server: ScramServer | None = None
        self.user = ""
        self._is_known = False

    def take(self, token: bytes, /) -> Step:
        """Return what it leads to. Raises: Refused."""
        told = (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism.name}"
        )
        try:
            if self._server is None:
                return self._begin(token, told)
            answer = self._server.final(token)
        except ScramError as error:
            whose = f" of {self.user}" if self._is_known else ""
            raise Refused(f"{error}{whose}", told) from None
        if not self._is_known:
            raise Refused("there is no such user", told)
        return Step(answer, self.user)

    def _begin(self, token: bytes, told: str) -> Step:
        begun = client_first(token)
        if begun.has_token:
            raise Refused("it shows a delegation token, and there are none here", told)
        if begun.other not in (None, "", begun.name):
            raise Refused("it wants to act for another", told)
        found, made_up = self._lookup(begun.name), self._made_up(begun.name)  # Both, whoever it is: as late.
        self.user, self._is_known = begun.name, found is not None
        self._server = ScramServer(self._mechanism, begun, found or made_up, self._nonce)
        return Step(self._server.first)

    def _made_up(self, user: str) -> ScramCredential:
        seed = digest(self._secret, user.encode(), "sha512")
        key = new(self._mechanism.hash, seed).digest()
        return ScramCredential(made_up_salt(self._secret, user), key, key, MIN_ITERATIONS)
