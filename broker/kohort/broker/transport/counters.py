"""Counters of connections and requests: plain numbers that the metrics read."""

from collections import defaultdict


class TransportCounters:
    """The counters since the start. The loop's thread only."""

    __slots__ = (
        "audit_lines_lost",
        "authentications",
        "bytes_in",
        "bytes_out",
        "connections_accepted",
        "connections_closed",
        "connections_refused",
        "expired_connections",
        "failed_authentications",
        "failed_handshakes",
        "locked_out",
        "malformed_requests",
        "request_errors",
        "requests",
        "stalled_connections",
    )

    def __init__(self) -> None:
        self.requests: defaultdict[int, int] = defaultdict(int)
        """By api key."""
        self.request_errors: dict[int, int] = {}
        """By error code, for responses and for partitions in them."""
        self.malformed_requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.connections_accepted = 0
        self.connections_closed = 0
        self.connections_refused = 0
        """Over max.connections or max.connections.per.ip."""
        self.failed_handshakes = 0
        """Of TLS."""
        self.authentications = 0
        """Successful SASL authentications, including re-authentications."""
        self.failed_authentications = 0
        self.audit_lines_lost = 0
        """Lost lines of the audit log: the queue was full, or the disk failed."""
        self.locked_out = 0
        """Failed authentications that were refused because of a lockout."""
        self.expired_connections = 0
        """Connections that were closed because their authentication had expired (KIP-368)."""
        self.stalled_connections = 0

    def request_failed(self, error_code: int) -> None:
        """Count an error in a response."""
        self.request_errors[error_code] = self.request_errors.get(error_code, 0) + 1
