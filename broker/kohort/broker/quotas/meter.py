"""The recent use of quotas by clients, and how long they have to wait. Pure.

Clients that share a quota share one rate. Rates without use for an hour are forgotten, and if a
client makes up many names, those that were idle longest, so that names use no more memory than
the limit.
"""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from kohort.broker.quotas.book import FETCH, MUTATION, PRODUCE, REQUEST, Book, Sharers
from kohort.broker.quotas.rates import SampledRate, TokenBucket

IDLE_MS_MAX = 3_600_000
RATES_MAX = 10_000
"""So many are kept, about a KiB each; Kafka has no limit."""
FULL_PERCENT = 100.0
ADDRESS = "address"

_Used = TypeVar("_Used", SampledRate, TokenBucket)


class Windows:
    """Over how many windows of which length rates are taken: Kafka's `quota.window.*`."""

    __slots__ = ("number", "window_ms")

    def __init__(self, number: int, seconds: int) -> None:
        self.number = number
        self.window_ms = seconds * 1_000


class Use(NamedTuple):
    """The used part of a quota."""

    key: str
    user: str
    """Empty where the quota is a client id's."""
    client_id: str
    """Empty where it is a user's."""
    value: float
    """The use per second; for created and deleted partitions, how many more are allowed."""
    throttle_ms: int
    """The throttle time of clients that are waiting now."""


class Meter:
    """Rates by quota."""

    def __init__(self, book: Book, windows: Windows, mutation_windows: Windows) -> None:
        self.book = book
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._rates: dict[Sharers, SampledRate] = {}
        self._buckets: dict[Sharers, TokenBucket] = {}
        self._next_look_ms = 0

    def produce(self, user: str, client_id: str, count: int, now_ms: int) -> int:
        """Note the bytes that were produced; return for how long the client is to be muted."""
        return self._record(PRODUCE, user, client_id, count, now_ms)[1]

    def hand_out(self, user: str, client_id: str, count: int, now_ms: int) -> int:
        """Note bytes that were handed out of a queue; return for how long the client is to be muted."""
        return self._record(FETCH, user, client_id, count, now_ms)[1]

    def fetch(self, user: str, client_id: str, count: int, now_ms: int) -> tuple[bool, int]:
        """Note bytes that are to be fetched; return whether they may, and for how long the client is muted.

        Those that may not do not count. A batch that is larger than what fits into all windows may once
        nothing is in them: Kafka would never hand it out.
        """
        rate, throttle_ms = self._record(FETCH, user, client_id, count, now_ms)
        if rate is None or not throttle_ms:
            return True, 0
        at_once_max = self.fetched_at_once_max(user, client_id)
        assert at_once_max is not None
        if count > at_once_max and rate.total(now_ms) == count:
            return True, throttle_ms
        rate.record(-count, now_ms)
        return False, throttle_ms

    def record_time(self, user: str, client_id: str, seconds: float, now_ms: int) -> int:
        """Note how long the loop was busy; return for how long the client is muted: a window at most."""
        _, throttle_ms = self._record(REQUEST, user, client_id, seconds * FULL_PERCENT, now_ms)
        return min(throttle_ms, self._windows.window_ms)

    def time_wait_ms(self, user: str, client_id: str, now_ms: int) -> int:
        """Return how long the clients that share a quota of the loop's time have to wait."""
        limit = self.book.limit(REQUEST, user, client_id)
        rate = None if limit is None else self._rates.get(limit.shared_by)
        if limit is None or rate is None:
            return 0
        return min(rate.throttle_ms(limit.bound, now_ms), self._windows.window_ms)

    def fetched_at_once_max(self, user: str, client_id: str) -> int | None:
        """Return how many bytes a fetch may get, which is what fits into all windows; None is any number."""
        limit = self.book.limit(FETCH, user, client_id)
        windows = self._windows
        return None if limit is None else int(limit.bound * (windows.number - 1) * windows.window_ms / 1_000)

    def _record(
        self, key: str, user: str, client_id: str, value: float, now_ms: int
    ) -> tuple[SampledRate | None, int]:
        """Return the rate that it was recorded in, if there is a quota, and for how long to wait."""
        limit = self.book.limit(key, user, client_id)
        if limit is None:
            return None, 0
        self._forget_idle(now_ms)
        rate = self._rates.get(limit.shared_by)
        if rate is None:
            windows = self._windows
            rate = self._rates[limit.shared_by] = SampledRate(windows.number, windows.window_ms)
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(limit.bound, now_ms)
        if throttle_ms:
            rate.told_ms, rate.told_until_ms = throttle_ms, now_ms + throttle_ms
        return rate, throttle_ms

    def mutate(
        self, user: str, client_id: str, partitions: int, now_ms: int, *, strictly: bool
    ) -> tuple[bool, int]:
        """Note partitions that are made or go; return whether they may, and for how long to be muted."""
        limit = self.book.limit(MUTATION, user, client_id)
        if limit is None:
            return True, 0
        self._forget_idle(now_ms)
        bucket = self._buckets.get(limit.shared_by)
        if bucket is None:
            windows = self._mutation_windows
            burst_s = windows.number * windows.window_ms / 1_000
            bucket = self._buckets[limit.shared_by] = TokenBucket(burst_s, limit.bound, now_ms)
        taken = bucket.take(partitions, limit.bound, now_ms, strictly=strictly)
        throttle_ms = bucket.throttle_ms(limit.bound, now_ms)
        if throttle_ms:
            bucket.told_ms, bucket.told_until_ms = throttle_ms, now_ms + throttle_ms
        return taken, throttle_ms

    def uses(self, most: int, now_ms: int) -> Iterator[Use]:
        """Yield how much is used of quotas of users and client ids, of those that were used last."""
        kept: list[tuple[Sharers, SampledRate | TokenBucket]] = [*self._rates.items(), *self._buckets.items()]
        kept.sort(key=lambda item: -item[1].last_ms)
        of_clients = (each for each in kept if each[0].key != ADDRESS)
        for shared, used in islice(of_clients, most):
            told_ms = used.told_ms if used.told_until_ms > now_ms else 0
            yield Use(shared.key, shared.user or "", shared.client_id or "", used.value(now_ms), told_ms)

    def connect(self, address: str, now_ms: int) -> int:
        """Note a connection from the address; return how long it is delayed before it is closed."""
        bound = self.book.connection_rate(address)
        if bound is None:
            return 0
        self._forget_idle(now_ms)
        key = Sharers(ADDRESS, address, None)
        rate = self._rates.get(key)
        if rate is None:
            windows = self._windows
            rate = self._rates[key] = SampledRate(windows.number, windows.window_ms)
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(bound, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)  # It does not come in: it shall not count.
        return throttle_ms

    def _forget_idle(self, now_ms: int) -> None:
        if len(self._rates) >= RATES_MAX:
            self._rates = _latest(self._rates)
        if len(self._buckets) >= RATES_MAX:
            self._buckets = _latest(self._buckets)
        if now_ms < self._next_look_ms:
            return
        self._next_look_ms = now_ms + IDLE_MS_MAX // 4
        idle_ms = now_ms - IDLE_MS_MAX
        self._rates = {key: rate for key, rate in self._rates.items() if rate.last_ms > idle_ms}
        self._buckets = {key: each for key, each in self._buckets.items() if each.last_ms > idle_ms}


def _latest(kept: dict[Sharers, _Used]) -> dict[Sharers, _Used]:
    """Return the half that was used last, the last one last."""
    by_time = sorted(kept.items(), key=lambda item: item[1].last_ms)
    return dict(by_time[len(by_time) // 2 :])
