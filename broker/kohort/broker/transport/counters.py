"""What is counted of connections and requests: plain numbers, read when metrics are asked for."""

from collections import defaultdict


class TransportCounters:
    """Every count since the start. The loop's thread only."""

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
        """By error code, of answers and of the partitions in them."""
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
        """By SASL; those of clients that were known already as well."""
        self.failed_authentications = 0
        self.audit_lines_lost = 0
        """Lines of the audit log that had no room, or that the disk did not take."""
        self.locked_out = 0
        """Of the failed authentications: those that were not looked at, for there were too many before."""
        self.expired_connections = 0
        """Closed for what they asked when their time was over (connections.max.reauth.ms)."""
        self.stalled_connections = 0

    def request_failed(self, error_code: int) -> None:
        """Count an error that a client was answered."""
        self.request_errors[error_code] = self.request_errors.get(error_code, 0) + 1
