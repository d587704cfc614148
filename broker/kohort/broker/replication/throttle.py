"""How fast replicas that a topic names are copied, while they are not in sync.

Source: KIP-73; kafka.server.ReplicationQuotaManager, which averages over ten seconds.
"""

from collections.abc import Collection

UNLIMITED = 2**63 - 1
EVERY_REPLICA = "*"
OWED_SECONDS_MAX = 1


class Throttle:
    """Moved bytes are a debt, paid off at the rate over time; the allowed debt is that of one second.

    Less would make it slower than asked for: a fetch that finds nothing waits for half a second. What moves
    at once goes over that by one fetch at most. Rates are bytes a second.
    """

    def __init__(self) -> None:
        self._owed_bytes = 0.0
        self._paid_ms = 0

    def moved(self, size_bytes: int, rate: int, now_ms: int) -> None:
        """Note that so many bytes were copied."""
        self._pay(rate, now_ms)
        if rate < UNLIMITED:
            self._owed_bytes += size_bytes

    def is_exceeded(self, rate: int, now_ms: int) -> bool:
        """Return whether nothing more is to be copied just now."""
        self._pay(rate, now_ms)
        return self._owed_bytes > rate * OWED_SECONDS_MAX

    def _pay(self, rate: int, now_ms: int) -> None:
        if rate >= UNLIMITED:
            self._owed_bytes = 0
        else:
            self._owed_bytes = max(0.0, self._owed_bytes - rate * (now_ms - self._paid_ms) / 1_000)
        self._paid_ms = now_ms


def is_named(throttled: Collection[str], partition: int, node_id: int) -> bool:
    """Return whether a topic's setting names the replica that this broker has: `*`, or `partition:broker`."""
    return EVERY_REPLICA in throttled or f"{partition}:{node_id}" in throttled
