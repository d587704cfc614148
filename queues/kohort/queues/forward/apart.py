"""Which routes have fallen behind, so that their records go through a topic of their own: pure.

A window is committed from its front. Where the records of one route wait for a service that is much slower
than the others, or away, they fill the window, and no other route gets records any more. Such a route is set
apart: its records are copied to its own topic, where it holds nobody else up.
"""

from collections.abc import Mapping

from kohort.queues.forward.limits import Circuit, Limits

SLOWER = 10.0  # So many times slower than the fastest service a route is set apart ...
AS_FAST = 5.0  # ... and below this it may come back.
LATENCY_MS_MIN = 1.0  # What is faster than that is not compared.
APART_MS_MIN = 30_000
BACKLOG_MAX = 100  # It comes back when so few of its own topic's records are in hand.


class Apart:
    """The routes of one worker that are set apart; `limits` has those that push, by name."""

    def __init__(self, limits: Mapping[str, Limits]) -> None:
        self._limits = limits
        self._since_ms: dict[str, float] = {}

    def __contains__(self, route: str) -> bool:
        return route in self._since_ms

    @property
    def routes(self) -> tuple[str, ...]:
        """Those that are set apart. From any thread."""
        return tuple(self._since_ms)

    def is_set_apart(self, route: str, now_ms: float, pushed_ms: float = 0.0) -> bool:
        """Take in that a route's record is first in a window that others wait for; True if that is news.

        It has been pushed for so long: that counts as long as the service has never answered.
        """
        if route in self._since_ms or not self._is_behind(route, SLOWER, now_ms, pushed_ms):
            return False
        self._since_ms[route] = now_ms
        return True

    def come_back(self, route: str, unfinished: int, now_ms: float) -> bool:
        """Return whether a route is not apart any more: so many of its own topic's records are in hand."""
        back = (
            now_ms - self._since_ms[route] >= APART_MS_MIN
            and unfinished <= BACKLOG_MAX
            and not self._is_behind(route, AS_FAST, now_ms)
        )
        if back:
            del self._since_ms[route]
        return back

    def _is_behind(self, route: str, times: float, now_ms: float, pushed_ms: float = 0.0) -> bool:
        """Whether a service takes so many times longer than another one, or takes nothing now."""
        mine = self._limits[route]
        others = [
            each
            for name, each in self._limits.items()
            if name != route and each.latency_ms is not None and each.breaker.state is Circuit.CLOSED
        ]
        if not others:
            return False
        if mine.breaker.state is not Circuit.CLOSED or mine.rate.wait_ms(now_ms):
            return True
        latency_ms = pushed_ms if mine.latency_ms is None else mine.latency_ms
        latencies_ms = [max(LATENCY_MS_MIN, each.latency_ms or 0) for each in others]
        if latency_ms >= times * min(latencies_ms):
            return True
        paces = [ms / each.concurrency.most for ms, each in zip(latencies_ms, others, strict=True)]
        pace = max(LATENCY_MS_MIN, latency_ms) / mine.concurrency.most
        return mine.is_full and pace >= times * min(paces)
