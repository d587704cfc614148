"""OAUTHBEARER: a signed token of a trusted issuer identifies the client.

A failure is answered at once, as with the other mechanisms. RFC 7628 wants a message that the client confirms
first, but fewer clients understand that.
Source: RFC 7628, RFC 9068, Kafka's OAuthBearerSaslServer and BrokerJwtValidator.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.values import ConfigError
from kohort.broker.transport.sasl.conversation import Refused, Step

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
"""Algorithms with public keys."""
TOLD = '{"status":"invalid_token"}'
_BEGINS = re.compile(rb"n,(?:a=([^,\x00\x01]*))?,", re.IGNORECASE)
_PAIR = re.compile(rb"[A-Za-z]+=[^\x00\x01]*")
_TOKEN = re.compile(rb"auth=Bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_ENDS = b"\x01\x01"


class Rules(NamedTuple):
    """The requirements for a token."""

    issuer: str | None
    audience: frozenset[str]
    user_claim: str
    skew_seconds: int


class Keys:
    """The current keys that verify signatures."""

    def __init__(self) -> None:
        self.found: KeySet | None = None
        self.want_more: Callable[[], None] = lambda: None
        """Called when a token names an unknown key, which may be new."""


def rules_of(config: BrokerConfig) -> Rules:
    """Return the requirements of the settings. Raises: ConfigError."""
    issuer, audience = config.sasl_oauthbearer_expected_issuer, config.sasl_oauthbearer_expected_audience
    if not issuer and not config.sasl_oauthbearer_allow_unverified_issuer:
        raise ConfigError(
            "OAUTHBEARER needs sasl.oauthbearer.expected.issuer, or "
            "sasl.oauthbearer.allow.unverified.issuer=true"
        )
    if not audience and not config.sasl_oauthbearer_allow_unverified_audience:
        raise ConfigError(
            "OAUTHBEARER needs sasl.oauthbearer.expected.audience, or "
            "sasl.oauthbearer.allow.unverified.audience=true"
        )
    return Rules(
        issuer,
        frozenset(audience),
        config.sasl_oauthbearer_sub_claim_name,
        config.sasl_oauthbearer_clock_skew_seconds,
    )


class Bearer:
    """One authentication with one token."""

    def __init__(self, keys: Keys, rules: Rules, wall_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._wall_ms = wall_ms
        self.user = ""  # Lockouts are not needed: signatures cannot be guessed.

    def take(self, token: bytes, /) -> Step:
        """Return the user and the expiry. Raises: Refused."""
        other, shown = first_message(token)
        claims = self._claims(shown)
        user, expires_s = self._judged(claims)
        if other and other != user.encode():
            raise Refused(f"{user} wants to act for another user", TOLD)
        return Step(b"", user, int(expires_s + self._rules.skew_seconds) * 1000)

    def _claims(self, token: str) -> Mapping[str, object]:
        if self._keys.found is None:
            self._keys.want_more()
            raise Refused("no keys could be read yet: see sasl.oauthbearer.jwks.endpoint.url", TOLD)
        try:
            return jwt.decode(token, self._keys.found, algorithms=list(ALGORITHMS)).claims
        except InvalidKeyIdError:
            self._keys.want_more()
            raise Refused("a token signed by a key that is not known", TOLD) from None
        except (JoseError, ValueError, TypeError) as error:
            raise Refused(f"a token that cannot be trusted: {type(error).__name__}", TOLD) from None

    def _judged(self, claims: Mapping[str, object]) -> tuple[str, float]:
        """Return the user and the expiry. Raises: Refused."""
        rules, now_s = self._rules, self._wall_ms() / 1000
        user, expires_s = claims.get(rules.user_claim), claims.get("exp")
        begins_s, issuer, audience = claims.get("nbf"), claims.get("iss"), claims.get("aud")
        if not isinstance(user, str) or not user:
            raise Refused(f"a token without the claim {rules.user_claim}", TOLD)
        if not isinstance(expires_s, int | float) or isinstance(expires_s, bool) or not 0 <= expires_s < 1e11:
            raise Refused(f"a token of {user} without an expiry", TOLD)
        if expires_s + rules.skew_seconds <= now_s:
            raise Refused(f"a token of {user} that has expired", TOLD)
        if begins_s is not None and not (
            isinstance(begins_s, int | float) and begins_s <= now_s + rules.skew_seconds
        ):
            raise Refused(f"a token of {user} that is not valid yet", TOLD)
        if rules.issuer is not None and issuer != rules.issuer:
            raise Refused(f"a token of {user} by another issuer", TOLD)
        audiences = audience if isinstance(audience, list) else [audience]
        if rules.audience and not any(isinstance(each, str) and each in rules.audience for each in audiences):
            raise Refused(f"a token of {user} for another audience", TOLD)
        return user, expires_s


def first_message(message: bytes) -> tuple[bytes, str]:
    """Return the requested user, empty for the client's own, and the token. Raises: Refused.

    The message is parsed in linear time, because the client is not trusted yet.
    """
    head, *pairs = message.removesuffix(_ENDS).split(b"\x01")
    begun = _BEGINS.fullmatch(head)
    tokens = [found[1] for each in pairs if (found := _TOKEN.fullmatch(each))]
    if begun is None or not tokens or not message.endswith(_ENDS) or not all(map(_PAIR.fullmatch, pairs)):
        raise Refused("a message that is not that of OAUTHBEARER", TOLD)
    return begun[1] or b"", tokens[0].decode()
