"""A connection over TLS: it begins with a handshake, and its transport may buffer decrypted data."""

import socket
import ssl
from typing import Protocol

from kohort.broker.transport.connection import Connection, Driver
from kohort.broker.transport.tls.stream import TlsTransport

HANDSHAKE_MS_MAX = 10_000
NO_TLS = "it does not speak TLS"


class Handshakes(Protocol):
    """What a TLS connection needs for its handshake, and calls for its result."""

    @property
    def context(self) -> ssl.SSLContext:
        """The TLS context with the newest certificates."""
        ...

    def entered(
        self, connection: "TlsConnection", certificate: bytes | None, resumed_until_s: float | None, /
    ) -> str:
        """Return the principal of a finished handshake. Raises: ValueError if the connection is refused.

        `resumed_until_s` is the end of the certificate of a resumed session, which OpenSSL has not looked at.
        """
        ...

    def came_in(self, connection: "TlsConnection", /) -> None:
        """Admit a connection whose principal is known now; it is closed if there is no room for it."""
        ...

    def failed(self, connection: "TlsConnection", reason: str, /) -> None:
        """Note a handshake that failed."""
        ...

    def left(self, connection: "TlsConnection", /) -> None:
        """Note that a connection has closed."""
        ...


class TlsConnection(Connection):
    """A connection over TLS."""

    __slots__ = ("_established", "_handshakes", "_opened_ms", "_tls")

    def __init__(  # noqa: PLR0917  # Like its base.
        self,
        driver: Driver,
        sock: socket.socket,
        address: tuple[str, int],
        frame_bytes_max: int,
        listener: int,
        handshakes: Handshakes,
    ) -> None:
        """Raises: OSError if the client is gone."""
        self._tls = TlsTransport(sock, handshakes.context)
        super().__init__(driver, self._tls, address, frame_bytes_max, listener)
        self._handshakes = handshakes
        self._established = False
        self._opened_ms = driver.now_ms

    def on_readable(self) -> None:
        """Do the handshake, then handle received bytes. Buffered data is handled in the next round."""
        if not self._established and not self._shake_hands():
            return
        super().on_readable()
        if self.closed:
            return
        self._go_on_with_leftovers()
        if self._tls.wants_write and not self.wants_write:
            self._driver.watch(self)

    def _shake_hands(self) -> bool:
        """Continue the handshake. Return whether it is finished."""
        if self._driver.is_round_long():  # A handshake takes a millisecond.
            self._driver.go_on_later(self)
            return False
        try:
            self._tls.shake_hands()
        except BlockingIOError:
            if self._tls.wants_write != self.wants_write:
                self._driver.watch(self)
            return False
        except OSError as error:
            reason = handshake_failure(error)
            self._tls.refuse(speaks_tls=reason != NO_TLS)
            self._refuse(reason)
            return False
        try:
            self.principal = self._handshakes.entered(
                self, self._tls.certificate(), self._tls.resumed_until_s()
            )
        except ValueError as error:
            self._refuse(str(error))
            return False
        self._established = True
        self._handshakes.came_in(self)
        if self.closed:
            return False
        self.peer.resumed(self._driver.now_ms)
        if self.wants_write:
            self._driver.watch(self)
        return True

    def _refuse(self, reason: str) -> None:
        self._handshakes.failed(self, reason)
        self.close()

    def _go_on_with_leftovers(self) -> None:
        if not self.paused and self._tls.has_leftovers:
            self._driver.go_on_later(self)

    def go_on(self) -> None:
        """Handle requests of earlier turns, then buffered data."""
        if self._established:
            super().go_on()
        if not self.closed and not self.paused and (not self._established or self._tls.has_leftovers):
            self.on_readable()

    def resume_if_possible(self) -> None:
        """Continue, and read again, if there is room."""
        was_paused = self.paused
        super().resume_if_possible()
        if was_paused and not self.closed:
            self._go_on_with_leftovers()

    def send_answers(self) -> None:
        """Send answers. Encrypted bytes may still wait for the socket."""
        super().send_answers()
        if not self.closed and self._tls.wants_write and not self.wants_write:
            self._driver.watch(self)

    def on_writable(self) -> None:
        """Send encrypted bytes, then unsent answers."""
        try:
            self._tls.flush()
        except OSError as error:
            self._driver.lost(self, error)
            self.close()
            return
        if not self._tls.wants_write:
            super().on_writable()

    @property
    def has_sent(self) -> bool:
        """Whether the client has sent any byte."""
        return self._established or self._tls.has_received

    @property
    def unsent(self) -> bool:
        """Whether bytes wait for the socket."""
        return super().unsent or self._tls.wants_write

    def look(self, now_ms: int) -> str | None:
        """Return the reason to close this connection, or None."""
        if not self._established and now_ms - self._opened_ms >= HANDSHAKE_MS_MAX:
            return "no TLS handshake in time"
        return super().look(now_ms)

    def close(self) -> None:
        """Close at once. Pending answers are dropped."""
        if not self.closed:
            self._handshakes.left(self)
        super().close()


def handshake_failure(error: OSError) -> str:
    """Return the reason of a failed handshake as text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return NO_TLS
    if isinstance(error, ssl.SSLEOFError) or not isinstance(error, ssl.SSLError):
        return "it went away in the middle"
    return _WORDS.get(reason) or reason.replace("_", " ").lower() or str(error)


_WORDS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has shown no certificate (ssl.client.auth=required)",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it takes this broker's certificate for expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not trust this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not trust this broker's certificate",
    "UNSUPPORTED_PROTOCOL": "it speaks an older TLS than ssl.enabled.protocols has",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it speaks another TLS than ssl.enabled.protocols has",
}
