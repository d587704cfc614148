"""A leader's knowledge of one follower: its synced end, and when it last had everything.

Source: org.apache.kafka.server.partition.Replica and ReplicaState.
"""

UNKNOWN_OFFSET = -1
NEVER_TOLD = 2**63 - 1
"""Where the log of a follower begins that does not say: no other start is behind it."""
NEVER_MS = -(2**62)


class FollowerState:
    """One follower as its fetches show it. Times are in milliseconds of a clock that only goes forward."""

    __slots__ = (
        "_last_fetch_end_offset",
        "_last_fetch_ms",
        "broker_epoch",
        "caught_up_ms",
        "log_start_offset",
        "synced_end_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        """`caught_up_ms`: a follower that is in sync when the leadership starts gets time to fetch."""
        self.broker_epoch = -1
        self.synced_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms
        self._last_fetch_ms = NEVER_MS
        self._last_fetch_end_offset = 0

    def fetched(self, broker_epoch: int, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Take a fetch in: all before `offset` is on the follower's disk.

        It has caught up when it has the leader's end at its previous fetch: under load it never has
        the leader's current end.
        """
        self.broker_epoch = broker_epoch
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self._last_fetch_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self._last_fetch_ms)
        self.synced_end_offset = offset
        self._last_fetch_ms = now_ms
        self._last_fetch_end_offset = leader_end_offset

    def begins_at(self, log_start_offset: int) -> None:
        """Take in where the follower's log begins. One of an earlier version never says."""
        self.log_start_offset = NEVER_TOLD if log_start_offset == UNKNOWN_OFFSET else log_start_offset

    def is_heard_of(self, now_ms: int, lag_ms_max: int) -> bool:
        """Return whether it fetches: while nothing can be committed, a lost follower lacks nothing either."""
        return now_ms - self._last_fetch_ms <= lag_ms_max

    def lags(self, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        """Return whether it has lacked something for longer than `replica.lag.time.max.ms`."""
        return self.synced_end_offset != leader_end_offset and now_ms - self.caught_up_ms > lag_ms_max
