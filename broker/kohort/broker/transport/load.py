"""What a client's requests cost the loop: who has been light goes first where there is too much to do.

A round that has taken long leaves everybody for later who is not known to be light. So a crowd that asks
for much at once waits for itself, and members whose heartbeats and commits cost next to nothing do not.
"""

LIGHT_REQUESTS_MIN = 4  # Nobody is known before.
LIGHT_MS_PER_REQUEST_MAX = 1
REMEMBERED_REQUESTS_MAX = 256  # Then older ones count half.
TURNS_PER_LOOK = 16  # A light one is not timed at each turn: that would cost more than it tells.


class Load:
    """How much time one client's requests have taken lately."""

    __slots__ = ("_requests", "_spent_ms", "is_light", "turns_left")

    def __init__(self) -> None:
        self._requests = 0
        self._spent_ms = 0
        self.turns_left = 1
        """How many turns to go until one is timed: who has a turn counts it down, and `note` up."""
        self.is_light = False
        """Whether this client is known to ask for little."""

    def note(self, requests: int, spent_ms: int) -> None:
        """Note what a turn that was timed has taken."""
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
