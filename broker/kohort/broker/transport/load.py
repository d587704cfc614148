"""Measures the cost of a client's requests. Under overload, clients with cheap requests go first.

When a round takes too long, it defers all clients that are not known as light. So clients with many expensive
requests delay each other, but not group members with cheap heartbeats and commits.
"""

LIGHT_REQUESTS_MIN = 4  # A client is not light before.
LIGHT_MS_PER_REQUEST_MAX = 1
REMEMBERED_REQUESTS_MAX = 256  # Above it, older requests count half.
TURNS_PER_LOOK = 16  # A light client is timed only every so many turns, because timing costs time.


class Load:
    """The recent cost of one client's requests."""

    __slots__ = ("_requests", "_spent_ms", "is_light", "turns_left")

    def __init__(self) -> None:
        self._requests = 0
        self._spent_ms = 0
        self.turns_left = 1
        """The number of turns until the next timed one. The caller decrements it, `note` resets it."""
        self.is_light = False
        """Whether this client's requests are known to be cheap."""

    def note(self, requests: int, spent_ms: int) -> None:
        """Add the measurement of a timed turn."""
        self._requests += requests
        self._spent_ms += spent_ms
        if self._requests > REMEMBERED_REQUESTS_MAX:
            self._requests //= 2
            self._spent_ms //= 2
        self.is_light = (
            self._requests >= LIGHT_REQUESTS_MIN
            and self._spent_ms <= self._requests * LIGHT_MS_PER_REQUEST_MAX
        )
        self.turns_left = TURNS_PER_LOOK if self.is_light else 1
