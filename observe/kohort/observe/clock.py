"""How far the brokers' clocks are ahead of the one of this machine, by the times of new records. Pure."""

SPAN_MS = 60_000
"""The records of the last one or two spans count: somebody may set a clock."""
SLACK_MS = 3_000
"""A record comes this much later than it was written: fetches wait for more of them."""
LATE_MS_MAX = 60_000
"""A record that comes later than this was waiting to be read."""


class BrokerClock:
    """Compares the time of each new record with the time at which it comes.

    A record comes after it was written, never before: the one with the least delay tells the difference best.
    """

    def __init__(self, ahead_ms: int = 0) -> None:
        """Begin with the difference that was known last; 0 for about the same or unknown."""
        self._begins_ms = 0
        self._ahead_ms: int | None = ahead_ms or None
        self._former_ahead_ms: int | None = None

    def saw(self, record_ms: int, now_ms: int) -> None:
        """Take a record that has come."""
        ahead_ms = record_ms - now_ms
        if ahead_ms < -LATE_MS_MAX:
            return
        if not 0 <= now_ms - self._begins_ms < SPAN_MS:
            self._begins_ms = now_ms
            self._former_ahead_ms, self._ahead_ms = self._ahead_ms, None
        self._ahead_ms = ahead_ms if self._ahead_ms is None else max(self._ahead_ms, ahead_ms)

    @property
    def ahead_ms(self) -> int:
        """By how much the brokers' clocks are ahead; negative for behind, 0 for about the same or unknown."""
        known = [each for each in (self._former_ahead_ms, self._ahead_ms) if each is not None]
        most_ms = max(known, default=0)
        return most_ms if abs(most_ms) > SLACK_MS else 0
