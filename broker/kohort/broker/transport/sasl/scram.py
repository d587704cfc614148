"""SCRAM on the broker's side.

Source: Kafka's ScramSaslServer and ScramServerCallbackHandler.
"""

from collections.abc import Callable, Mapping
from hashlib import new
from hmac import digest
from math import log

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
"""Returns the credential of a user, or None."""

NO_USERS: Mapping[int, int] = {}


def made_up_salt(secret: bytes, user: str) -> bytes:
    """Return the constant salt of an unknown user, or of a user in the settings."""
    return salt_of(digest(secret, user.encode(), "sha512"))


def made_up_iterations(secret: bytes, user: str, counts: Mapping[int, int]) -> int:
    """Return the constant iterations of an unknown user, with the distribution of real users.

    The result rarely changes when users are added or removed. `counts` has the number of users by iterations.
    """

    def weight(iterations: int) -> float:
        drawn = digest(secret, f"{iterations} {user}".encode(), "sha512")
        return counts[iterations] / -log((int.from_bytes(drawn[:6]) + 1) / (2**48 + 1))

    return max(counts, key=weight, default=MIN_ITERATIONS)


class Scram:
    """One authentication with two tokens. Unknown users and wrong passwords get the same answers, as fast."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        lookup: Lookup,
        nonce: str,
        secret: bytes,
        iterations: Mapping[int, int] = NO_USERS,
    ) -> None:
        """`secret` is shared by all brokers, so that unknown users have the same salt at each of them.

        `iterations` has the number of users by iterations.
        """
        self._iterations = iterations
        self._mechanism = mechanism
        self._lookup = lookup
        self._nonce = nonce
        self._secret = secret
        self._server: ScramServer | None = None
        self.user = ""
        self._is_known = False

    def take(self, token: bytes, /) -> Step:
        """Return the result of a token. Raises: Refused."""
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
        first = client_first(token)
        if first.has_token:
            raise Refused("the client uses a delegation token, which kohort does not support", told)
        if first.authorization_id not in (None, "", first.name):
            raise Refused("the client wants to act for another user", told)
        found, made_up = self._lookup(first.name), self._made_up(first.name)  # Always both, for equal timing.
        self.user, self._is_known = first.name, found is not None
        self._server = ScramServer(self._mechanism, first, found or made_up, self._nonce)
        return Step(self._server.first)

    def _made_up(self, user: str) -> ScramCredential:
        seed = digest(self._secret, user.encode(), "sha512")
        key = new(self._mechanism.hash, seed).digest()
        iterations = made_up_iterations(self._secret, user, self._iterations)
        return ScramCredential(made_up_salt(self._secret, user), key, key, iterations)
