"""Authenticates this client to a broker, before any other request: the client side of SASL.

Source: Kafka's SaslClientAuthenticator; KIP-43, KIP-152, KIP-368.
"""

import secrets
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import cast

import anyio
import anyio.to_thread

from kohort.client.config import ClientConfig
from kohort.client.connection import Connection
from kohort.client.errors import AuthenticationError, ConfigurationError, KohortError, UnsupportedVersionError
from kohort.protocol.errors import ErrorCode
from kohort.protocol.jaas import parse_jaas
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kohort.protocol.scram import MECHANISMS as SCRAM
from kohort.protocol.scram import ScramClient, ScramError

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SASL_MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)
_LOGIN_MODULES = ("PlainLoginModule", "ScramLoginModule")

Provider = Callable[[], "str | Awaitable[str]"]
"""Returns a token that is good now."""


class Authenticator:
    """Has the credentials of this client, and authenticates each connection."""

    def __init__(self, config: ClientConfig) -> None:
        """Raises: ConfigurationError where something is missing."""
        mechanism = config.sasl_mechanism
        if mechanism not in SASL_MECHANISMS:
            raise ConfigurationError(
                f"sasl_mechanism is {mechanism!r}: with security_protocol={config.security_protocol!r}"
                f" give one of {', '.join(map(repr, SASL_MECHANISMS))}"
            )
        self._mechanism = mechanism
        self._provider = _provider(config.sasl_oauth_token_provider)
        self._user, self._password = _name_and_password(config)
        if mechanism == OAUTHBEARER and self._provider is None:
            raise ConfigurationError(
                "sasl_oauth_token_provider: OAUTHBEARER needs a function that returns a token"
            )
        if mechanism != OAUTHBEARER and not (self._user and self._password):
            raise ConfigurationError(f"{mechanism} needs sasl_plain_username and sasl_plain_password")

    async def authenticate(self, connection: Connection, timeout_ms: float) -> int:
        """Return for how many milliseconds the broker accepts this client, 0 forever.

        Raises: AuthenticationError, which is final; NetworkError, RequestTimeoutError.
        """
        try:
            connection.version_of(SaslHandshakeRequest)
        except UnsupportedVersionError:
            raise self._not_wanted(connection) from None
        shaken = await connection.request(
            SaslHandshakeRequest(mechanism=self._mechanism), SaslHandshakeResponse, timeout_ms=timeout_ms
        )
        if shaken.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise self._not_wanted(connection)
        if shaken.error_code:
            raise AuthenticationError(
                shaken.error_code,
                f"{connection.address} does not take {self._mechanism};"
                f" it takes {', '.join(shaken.mechanisms)}",
            )
        try:
            return await self._tokens(connection, timeout_ms)
        except ScramError as error:
            raise AuthenticationError(
                ErrorCode.SASL_AUTHENTICATION_FAILED, f"{connection.address}: {error}"
            ) from None

    def _not_wanted(self, connection: Connection) -> AuthenticationError:
        instead = "SSL" if connection.is_secure else "PLAINTEXT"
        return AuthenticationError(
            ErrorCode.ILLEGAL_SASL_STATE,
            f"{connection.address} does not ask who this client is: security_protocol={instead!r}",
        )

    async def _tokens(self, connection: Connection, timeout_ms: float) -> int:
        if self._mechanism in SCRAM:
            scram = ScramClient(SCRAM[self._mechanism], self._user, self._password, secrets.token_hex())
            first = await self._show(connection, scram.first, timeout_ms)
            # Thousands of digests.
            proof = await anyio.to_thread.run_sync(scram.final, bytes(first.auth_bytes))
            last = await self._show(connection, proof, timeout_ms)
            scram.check(bytes(last.auth_bytes))
            return last.session_lifetime_ms
        if self._mechanism == PLAIN:
            token = f"\0{self._user}\0{self._password}".encode()
        else:
            token = f"n,,\1auth=Bearer {await self._bearer_token()}\1\1".encode()
        answer = await self._show(connection, token, timeout_ms)
        return answer.session_lifetime_ms

    async def _bearer_token(self) -> str:
        """Return a valid token. Raises: AuthenticationError if there is none."""
        assert self._provider is not None
        try:
            found = self._provider()
            return await found if isawaitable(found) else found
        except KohortError:
            raise
        except Exception as error:  # It is the user's own code.
            raise AuthenticationError(
                ErrorCode.SASL_AUTHENTICATION_FAILED, f"sasl_oauth_token_provider failed: {error!r}"
            ) from error

    async def _show(
        self, connection: Connection, token: bytes, timeout_ms: float
    ) -> SaslAuthenticateResponse:
        answer = await connection.request(
            SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, timeout_ms=timeout_ms
        )
        if answer.error_code:
            who = f" as {self._user!r}" if self._user else ""
            raise AuthenticationError(
                answer.error_code,
                f"{connection.address} does not let this client in{who}: {answer.error_message}",
            )
        if self._mechanism == OAUTHBEARER and answer.auth_bytes:
            # It has sent the reason, and waits for this (RFC 7628).
            await self._show(connection, b"\1", timeout_ms)
        return answer


def _provider(given: object) -> Provider | None:
    """Return the function that returns tokens; other clients take objects with a method `token`."""
    if given is None:
        return None
    method = getattr(given, "token", given)
    if not callable(method):
        raise ConfigurationError(
            f"sasl_oauth_token_provider is {given!r}: give a function that returns a token"
        )
    return cast(Provider, method)


def _name_and_password(config: ClientConfig) -> tuple[str, str]:
    if config.sasl_jaas_config is None:
        return config.sasl_plain_username or "", config.sasl_plain_password or ""
    if config.sasl_plain_username is not None or config.sasl_plain_password is not None:
        raise ConfigurationError(
            "sasl_jaas_config: with it neither sasl_plain_username nor sasl_plain_password"
        )
    try:
        module = parse_jaas(config.sasl_jaas_config)
    except ValueError as error:
        raise ConfigurationError(f"sasl_jaas_config: {error}") from None
    if module.name not in _LOGIN_MODULES:
        raise ConfigurationError(f"sasl_jaas_config: the module has to be {' or '.join(_LOGIN_MODULES)}")
    return module.options.get("username", ""), module.options.get("password", "")
