"""Brokers among themselves by TLS, each with its own certificate, and by SASL as a user.

Certificates are read for each connection: there are few, and so renewed ones apply at once.
Source: Kafka's security.inter.broker.protocol and sasl.mechanism.inter.broker.protocol.
"""

import secrets
import ssl
from functools import partial

import trio

from kohort.broker.cluster.dialing import Dialled, PeerRefused, dial_plain
from kohort.broker.cluster.peer_connection import PeerConnection
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.listener_settings import JAAS, of_listener
from kohort.broker.config.values import ConfigError
from kohort.broker.transport.tls.contexts import make_peer_context
from kohort.protocol.errors import ErrorCode, WireError
from kohort.protocol.jaas import parse_jaas
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kohort.protocol.scram import MECHANISMS as SCRAM
from kohort.protocol.scram import ScramClient, ScramError

PLAIN = "PLAIN"
MECHANISM = "sasl.mechanism.inter.broker.protocol"
VERSION = 1


class SecureDial:
    """Connects to the listeners by which brokers reach each other."""

    def __init__(self, config: BrokerConfig, node_id: int, *, protocol: str, listener: str) -> None:
        """Read the certificates and secrets. Raises: ConfigError."""
        self._config = config
        self._client_id = f"broker-{node_id}"
        self._has_tls = protocol.endswith("SSL")
        self._mechanism = ""
        self._user = self._password = ""
        if self._has_tls:
            make_peer_context(config)
        if protocol.startswith("SASL_"):
            self._mechanism = config.sasl_mechanism_inter_broker_protocol or ""
            self._user, self._password = self._name_and_password(listener)

    @property
    def user(self) -> str | None:
        """The user of brokers among each other, if they authenticate by SASL."""
        return self._user or None

    def _name_and_password(self, listener: str) -> tuple[str, str]:
        mechanism = self._mechanism
        if mechanism != PLAIN and mechanism not in SCRAM:
            raise ConfigError(f"{MECHANISM}={mechanism}: give one of {', '.join((PLAIN, *SCRAM))}")
        setting = f"{mechanism.lower()}.{JAAS}"
        text = of_listener(self._config.kohort_listener_settings, listener).get(setting)
        place = f"listener.name.{listener.lower()}.{setting}"
        if text is None and self._config.sasl_jaas_config is not None:
            text, place = self._config.sasl_jaas_config, JAAS
        try:
            options = parse_jaas(text or "").options
        except ValueError as error:
            raise ConfigError(f"{place}: {error}") from None
        if not options.get("username") or not options.get("password"):
            raise ConfigError(f"{place}: inter-broker authentication needs username and password")
        return options["username"], options["password"]

    async def __call__(self, host: str, port: int) -> Dialled:
        """Connect. Raises: PeerRefused, OSError."""
        dialled = await dial_plain(host, port)
        try:
            if self._has_tls:
                dialled = await self._encrypted(dialled, host)
            if self._mechanism:
                await self._authenticate(PeerConnection(dialled, self._client_id), f"{host}:{port}")
        except BaseException:
            dialled.socket.close()
            raise
        return dialled

    async def _encrypted(self, dialled: Dialled, host: str) -> Dialled:
        context = await trio.to_thread.run_sync(make_peer_context, self._config)
        secure = trio.SSLStream(dialled.stream, context, server_hostname=host, https_compatible=True)
        try:
            await secure.do_handshake()
        except (trio.BrokenResourceError, ssl.SSLError) as error:
            reason = error.__cause__ or error
            raise PeerRefused(f"no TLS with the broker at {host}: {reason}") from None
        return Dialled(secure, dialled.socket)

    async def _authenticate(self, peer: PeerConnection, where: str) -> None:
        try:
            shaken = await peer.ask(
                SaslHandshakeRequest(mechanism=self._mechanism), SaslHandshakeResponse, VERSION
            )
            if shaken.error_code:
                raise PeerRefused(f"the broker at {where} does not take {self._mechanism}")
            if self._mechanism == PLAIN:
                await self._show(peer, where, f"\0{self._user}\0{self._password}".encode())
                return
            scram = ScramClient(SCRAM[self._mechanism], self._user, self._password, secrets.token_hex())
            first = await self._show(peer, where, scram.first)
            proof = await trio.to_thread.run_sync(partial(scram.final, first))  # Thousands of digests.
            scram.check(await self._show(peer, where, proof))
        except (ScramError, WireError, trio.BrokenResourceError) as error:
            raise PeerRefused(f"the broker at {where} was not convinced: {error}") from None

    async def _show(self, peer: PeerConnection, where: str, token: bytes) -> bytes:
        answer = await peer.ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, VERSION)
        if answer.error_code != ErrorCode.NONE:
            raise PeerRefused(
                f"the broker at {where} does not let this one in as {self._user}: {answer.error_message}"
            )
        return bytes(answer.auth_bytes)
