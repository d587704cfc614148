"""How the HTTP side is closed to strangers: TLS by the broker's own certificates, and secrets in a file.

Both are read again when their files are others, as often as the Kafka side looks; what cannot be used changes
nothing but the log.
"""

import ssl
from pathlib import Path

import structlog
import trio

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.values import ConfigError
from kohort.broker.http.credentials import Credentials, WrongCredentials
from kohort.broker.transport.tls import contexts

CREDENTIALS_BYTES_MAX = 1 << 16

log = structlog.get_logger("kohort.http")


class HttpSecurity:
    """What holds now."""

    def __init__(self, config: BrokerConfig) -> None:
        """Read the files. Raises: ConfigError."""
        self._config = config
        self._is_encrypted = config.kohort_http_security_protocol == "SSL"
        self._file = config.kohort_http_credentials_file
        self._found = self._stamps()
        self.context: ssl.SSLContext | None = None
        self.credentials: Credentials | None = None
        self._read()

    def name_of(self, header: str) -> str:
        """Return whose secret a header shows that `knows` has taken; empty where there are none."""
        return "" if self.credentials is None else self.credentials.name_of(header)

    @property
    def lock_out_max_ms(self) -> int:
        """How long who has shown too many wrong secrets waits at most."""
        return self._config.kohort_lockout_max_ms

    def knows(self, header: str | None) -> bool:
        """Return whether an Authorization header is good enough."""
        return self.credentials is None or self.credentials.knows(header)

    def _read(self) -> None:
        credentials = None if self._file is None else read_credentials(self._file)
        if self._is_encrypted:
            self.context = contexts.make_context(self._config, asks_clients=False)
        self.credentials = credentials

    def _stamps(self) -> tuple[tuple[str, int, int], ...]:
        found = contexts.sources(self._config) if self._is_encrypted else ()
        if self._file is None:
            return found
        try:
            status = Path(self._file).stat()
        except OSError:
            return found  # In the middle of being replaced.
        return (*found, (self._file, status.st_mtime_ns, status.st_ino))

    async def reload_regularly(self) -> None:
        """Read the files again whenever they are others."""
        while True:
            await trio.sleep(self._config.kohort_ssl_reload_interval_ms / 1000)
            found = await trio.to_thread.run_sync(self._stamps)
            if found == self._found:
                continue
            self._found = found
            try:
                await trio.to_thread.run_sync(self._read)
            except ConfigError as error:
                log.error(
                    "new certificates or credentials of HTTP cannot be used, the old ones stay",
                    error=str(error),
                )
            else:
                log.info("certificates and credentials of HTTP were reloaded")


def read_credentials(name: str) -> Credentials:
    """Return what the file says. Blocks. Raises: ConfigError."""
    try:
        with open(name, encoding="utf-8") as file:
            return Credentials(file.read(CREDENTIALS_BYTES_MAX))
    except (OSError, UnicodeDecodeError, WrongCredentials) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"kohort.http.credentials.file={name}: {reason}") from None
