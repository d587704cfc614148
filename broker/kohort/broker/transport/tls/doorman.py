"""Who lets connections in by TLS: the certificates of now, who is in the middle of a handshake, who comes in.

Strangers may open connections and stay silent. No more than `HALF_OPEN_MAX` do: each further one costs
another its place (`Crowd` says whose).
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
from kohort.broker.transport.crowd import Crowd
from kohort.broker.transport.tls.connection import TlsConnection
from kohort.broker.transport.tls.contexts import make_context, make_mapper, sources
from kohort.broker.transport.tls.names import ANONYMOUS, subject_of
from kohort.broker.transport.tls.revocation import Identity, identity_of, revoked_among

HALF_OPEN_MAX = 256
RELOAD_MS_MAX = 30_000

log = structlog.get_logger("kohort.tls")


class Doorman:
    """For all listeners that speak SSL, or for all that speak SASL_SSL. The loop's thread only."""

    def __init__(
        self,
        current: CurrentConfig,
        counters: TransportCounters,
        workers: Workers,
        throttled: ThrottledLog,
        clock: Clock,
        *,
        asks_clients: bool = True,
        entered: Callable[[Connection], None],
        told: Callable[[str, str, str, str], None] = lambda *_: None,
    ) -> None:
        """Read the certificates; clients may be asked for theirs, as settings say. Raises: ConfigError.

        `entered` is told of connections whose principal is known by that, `told` of each attempt.
        """
        self._tell_entered = entered
        self._told = told
        self._asks_clients = asks_clients
        self._current = current
        self._counters = counters
        self._workers = workers
        self._log = throttled
        self._clock = clock
        self._half_open = Crowd[TlsConnection](HALF_OPEN_MAX)
        self._shown: dict[TlsConnection, Identity] = {}  # Where certificates can be revoked.
        self._name_of = make_mapper(current.config)
        self._sources = sources(current.config)
        self._context = make_context(current.config, asks_clients=asks_clients)

    @property
    def context(self) -> ssl.SSLContext:
        """With the newest certificates."""
        return self._context

    @property
    def half_open(self) -> int:
        """How many are in the middle of a handshake."""
        return len(self._half_open)

    def open(  # As a connection is made.
        self,
        driver: Driver,
        sock: socket.socket,
        address: tuple[str, int],
        frame_bytes_max: int,
        listener: int,
    ) -> TlsConnection:
        """Return a new connection, which has to shake hands. Raises: OSError where its client has gone."""
        if (in_the_way := self._half_open.in_the_way()) is not None:
            self.failed(in_the_way, "too many others are in the middle of a handshake")
            in_the_way.close()
        connection = TlsConnection(driver, sock, address, frame_bytes_max, listener, self)
        self._half_open.came(connection, driver.now_ms)
        return connection

    def entered(
        self, connection: TlsConnection, certificate: bytes | None, resumed_until_s: float | None, /
    ) -> str:
        """Return the principal of one that has shaken hands. Raises: ValueError where it may not come in.

        A session from before is good for no longer than the certificate was that it began with: OpenSSL, as
        it goes on with one, looks at no certificate, and gives another session in its place.
        """
        if resumed_until_s is not None and self._clock.wall_ms() / 1000 > resumed_until_s:
            raise ValueError("its certificate is refused: certificate has expired since its session began")
        is_asked = self._asks_clients and self._current.config.ssl_client_auth != "none"
        name = self._name_of(subject_of(certificate)) if is_asked and certificate is not None else ANONYMOUS
        self._half_open.left(connection)
        if certificate is not None and self._current.config.kohort_ssl_crl_location is not None:
            self._shown[connection] = identity_of(certificate)
        log.debug("shook hands", peer=connection.name, principal=f"User:{name}")
        return f"User:{name}"

    def came_in(self, connection: TlsConnection, /) -> None:
        """Take one whose principal is known now; it is closed where there is no room for it."""
        if self._asks_clients:  # Else it has to say by SASL who it is.
            if connection.principal != f"User:{ANONYMOUS}":
                self._told(connection.principal, connection.host, "SSL", "")
            self._tell_entered(connection)

    def failed(self, connection: TlsConnection, reason: str, /) -> None:
        """Note one that did not come in."""
        self._counters.failed_handshakes += 1
        self._told("", connection.host, "SSL", reason)
        self._log.warning("a TLS handshake failed", peer=connection.name, reason=reason)

    def left(self, connection: TlsConnection, /) -> None:
        """Note that one has closed."""
        self._half_open.left(connection)
        self._shown.pop(connection, None)

    async def reload_regularly(self, part: Watched = UNWATCHED) -> None:
        """Take certificates anew whenever their files are others. Whoever is connected stays so."""
        while True:
            await self._workers.sleep(self._current.config.kohort_ssl_reload_interval_ms / 1000)
            with part.working(RELOAD_MS_MAX):
                await self.reload()

    async def reload(self) -> None:
        """Take the certificates anew if their files are others; wrong ones change nothing but a log line."""
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
        """Close those in the middle of a handshake, which would end by the lists of before."""
        while (oldest := self._half_open.oldest()) is not None:
            connection, _ = oldest
            self._half_open.left(connection)
            self.failed(connection, "the lists of revoked certificates have changed meanwhile")
            connection.close()

    async def _close_revoked(self, config: BrokerConfig) -> None:
        """Close connections whose certificate has been revoked since they came."""
        if not self._shown:
            return
        try:
            revoked = await self._workers.in_thread(revoked_now, config, frozenset(self._shown.values()))
        except (OSError, ValueError) as error:
            log.error("connections with revoked certificates cannot be found", error=str(error))
            return
        for connection in [each for each, shown in self._shown.items() if shown in revoked]:
            self._log.warning(
                "a connection is given up",
                peer=connection.name,
                principal=connection.principal,
                reason="its certificate is revoked",
            )
            self._told(connection.principal, connection.host, "SSL", "its certificate is revoked")
            connection.close()


def revoked_now(config: BrokerConfig, shown: Collection[Identity]) -> set[Identity]:
    """Return which of these certificates are revoked. Reads the file. Raises: OSError, ValueError."""
    assert config.kohort_ssl_crl_location is not None
    return revoked_among(Path(config.kohort_ssl_crl_location).read_text(encoding="utf-8"), shown)
