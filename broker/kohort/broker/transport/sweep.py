"""Checks all connections every two seconds: closes stalled and idle ones, and counts bytes."""

from collections.abc import Iterable

from kohort.broker.config.current import CurrentConfig
from kohort.broker.runtime.throttled_log import ThrottledLog
from kohort.broker.transport.connection import Connection
from kohort.broker.transport.counters import TransportCounters

SWEEP_INTERVAL_MS = 2_000


def _held_bytes(connection: Connection) -> int:
    return connection.peer.held_bytes


class Sweep:
    """Checks every connection. The loop's thread only."""

    def __init__(self, current: CurrentConfig, counters: TransportCounters, log: ThrottledLog) -> None:
        self._current = current
        self._counters = counters
        self._log = log

    def look(self, connections: Iterable[Connection], now_ms: int, *, is_full: bool = False) -> None:
        """Close stalled and idle connections. `connections` may change meanwhile.

        If `is_full`, connections that hold most are closed first, because then others may stay.
        """
        idle_ms_max = self._current.config.connections_max_idle_ms
        in_order = sorted(connections, key=_held_bytes, reverse=True) if is_full else tuple(connections)
        for connection in in_order:
            self.count_bytes(connection)
            if connection.is_warming:
                continue
            peer = connection.peer
            reason = connection.look(now_ms)
            if reason is not None:
                self._counters.stalled_connections += 1
                self._log.warning("a connection is closed", peer=connection.name, reason=reason)
                connection.close()
            elif (
                idle_ms_max >= 0
                and now_ms - peer.last_active_ms > idle_ms_max
                and (peer.pieces or not peer.requests_in_flight)
            ):
                self._log.debug("a connection was idle", peer=connection.name)
                connection.close()
        self._log.tell_left_out()

    def count_bytes(self, connection: Connection) -> None:
        """Add the bytes since the last call to the broker's counters."""
        peer = connection.peer
        self._counters.bytes_in += peer.bytes_in - connection.counted_in
        self._counters.bytes_out += peer.bytes_out - connection.counted_out
        connection.counted_in, connection.counted_out = peer.bytes_in, peer.bytes_out
