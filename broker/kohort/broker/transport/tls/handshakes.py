"""The TLS handshakes of connections: the current certificates, unfinished handshakes, and results.

A client may open a connection and stay silent. At most `HALF_OPEN_MAX` handshakes are under way: each further
one displaces another (`PendingConnections` chooses which).
"""

import socket
import ssl
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import structlog

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.current import CurrentConfig
from kohort.broker.config.values import ConfigError
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.runtime.workers import Workers
from kohort.broker.transport.connection import Connection, Driver
from kohort.broker.transport.counters import TransportCounters
from kohort.broker.transport.pending_connections import PendingConnections
from kohort.broker.transport.tls.connection import TlsConnection
from kohort.broker.transport.tls.contexts import make_context, make_mapper, sources
from kohort.broker.transport.tls.names import ANONYMOUS, subject_of
from kohort.broker.transport.tls.revocation import Identity, identity_of, revoked_among

HALF_OPEN_MAX = 256
RELOAD_MS_MAX = 30_000

log = structlog.get_logger("kohort.tls")


class Handshakes:
    """The handshakes of all SSL listeners, or of all SASL_SSL listeners. Used by the loop's thread only."""

    def __init__(
        self,
        current: CurrentConfig,
        counters: TransportCounters,
        workers: Workers,
        throttled: ThrottledLog,
        clock: Clock,
        *,
        asks_clients: bool = True,
        on_authenticated: Callable[[Connection], None],
        on_login: Callable[[str, str, str, str], None] = lambda *_: None,
    ) -> None:
        """Read the certificates. With `asks_clients`, settings decide whether clients need one.

        `on_authenticated` is called with each connection whose principal is known, `on_login` with each
        attempt.
        Raises: ConfigError.
        """
        self._on_authenticated = on_authenticated
        self._on_login = on_login
        self._asks_clients = asks_clients
        self._current = current
        self._counters = counters
        self._workers = workers
        self._log = throttled
        self._clock = clock
        self._half_open = PendingConnections[TlsConnection](HALF_OPEN_MAX)
        self._shown: dict[TlsConnection, Identity] = {}  # Where certificates can be revoked.
        self._name_of = make_mapper(current.config)
        self._sources = sources(current.config)
        self._context = make_context(current.config, asks_clients=asks_clients)

    @property
    def context(self) -> ssl.SSLContext:
        """The TLS context with the newest certificates."""
        return self._context

    @property
    def half_open(self) -> int:
        """The number of handshakes under way."""
        return len(self._half_open)

    def open(  # It is an `Open`.
        self,
        driver: Driver,
        sock: socket.socket,
        address: tuple[str, int],
        frame_bytes_max: int,
        listener: int,
    ) -> TlsConnection:
        """Return a new connection, which begins with a handshake. Raises: OSError if its client has gone."""
        if (displaced := self._half_open.to_displace()) is not None:
            self.failed(displaced, "too many others are in the middle of a handshake")
            displaced.close()
        connection = TlsConnection(driver, sock, address, frame_bytes_max, listener, self)
        self._half_open.add(connection, driver.now_ms)
        return connection

    def entered(
        self, connection: TlsConnection, certificate: bytes | None, resumed_until_s: float | None, /
    ) -> str:
        """Return the principal of a finished handshake. Raises: ValueError if the connection is refused.

        A resumed session is valid only as long as the certificate with which it began: OpenSSL does not look
        at the certificate when it resumes a session, and issues another session in its place.
        """
        if resumed_until_s is not None and self._clock.wall_ms() / 1000 > resumed_until_s:
            raise ValueError("its certificate is refused: certificate has expired since its session began")
        is_asked = self._asks_clients and self._current.config.ssl_client_auth != "none"
        name = self._name_of(subject_of(certificate)) if is_asked and certificate is not None else ANONYMOUS
        self._half_open.remove(connection)
        if certificate is not None and self._current.config.kohort_ssl_crl_location is not None:
            self._shown[connection] = identity_of(certificate)
        log.debug("shook hands", peer=connection.name, principal=f"User:{name}")
        return f"User:{name}"

    def came_in(self, connection: TlsConnection, /) -> None:
        """Admit a connection whose principal is known now; it is closed if there is no room for it."""
        if self._asks_clients:  # Else it has to say by SASL who it is.
            if connection.principal != f"User:{ANONYMOUS}":
                self._on_login(connection.principal, connection.host, "SSL", "")
            self._on_authenticated(connection)

    def failed(self, connection: TlsConnection, reason: str, /) -> None:
        """Note a handshake that failed."""
        self._counters.failed_handshakes += 1
        self._on_login("", connection.host, "SSL", reason)
        self._log.warning("a TLS handshake failed", peer=connection.name, reason=reason)

    def left(self, connection: TlsConnection, /) -> None:
        """Note that a connection has closed."""
        self._half_open.remove(connection)
        self._shown.pop(connection, None)

    async def reload_regularly(self, part: Watched = UNWATCHED) -> None:
        """Read the certificates again whenever their files change. Open connections stay open."""
        while True:
            await self._workers.sleep(self._current.config.kohort_ssl_reload_interval_ms / 1000)
            with part.working(RELOAD_MS_MAX):
                await self.reload()

    async def reload(self) -> None:
        """Read the certificates again if their files changed; invalid ones change nothing and are logged."""
        config = self._current.config
        found = await self._workers.in_thread(sources, config)
        if found == self._sources:
            return
        self._sources = found  # Told once: wrong files are looked at again when they change.
        try:
            self._context = await self._workers.in_thread(
                partial(make_context, config, asks_clients=self._asks_clients)
            )
        except ConfigError as error:
            log.error("the new certificates cannot be used, the old ones stay", error=str(error))
        else:
            log.info("certificates were reloaded")
            if config.kohort_ssl_crl_location is not None:
                self._give_up_half_open()
                await self._close_revoked(config)

    def _give_up_half_open(self) -> None:
        """Close the connections whose handshake is under way: it would use the old revocation lists."""
        while (oldest := self._half_open.oldest()) is not None:
            connection, _ = oldest
            self._half_open.remove(connection)
            self.failed(connection, "the lists of revoked certificates have changed meanwhile")
            connection.close()

    async def _close_revoked(self, config: BrokerConfig) -> None:
        """Close connections whose certificate has been revoked since their handshake."""
        if not self._shown:
            return
        try:
            revoked = await self._workers.in_thread(revoked_now, config, frozenset(self._shown.values()))
        except (OSError, ValueError) as error:
            log.error("connections with revoked certificates cannot be found", error=str(error))
            return
        for connection in [each for each, shown in self._shown.items() if shown in revoked]:
            self._log.warning(
                "a connection is closed",
                peer=connection.name,
                principal=connection.principal,
                reason="its certificate is revoked",
            )
            self._on_login(connection.principal, connection.host, "SSL", "its certificate is revoked")
            connection.close()


def revoked_now(config: BrokerConfig, shown: Collection[Identity]) -> set[Identity]:
    """Return which of these certificates are revoked. Reads the file. Raises: OSError, ValueError."""
    assert config.kohort_ssl_crl_location is not None
    return revoked_among(Path(config.kohort_ssl_crl_location).read_text(encoding="utf-8"), shown)
