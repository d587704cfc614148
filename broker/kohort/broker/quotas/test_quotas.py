"""Rates, the matching quota of a client, and its throttle time: over virtual time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.broker.quotas.book import FETCH, MUTATION, PRODUCE, REQUEST, Book, Limit
from kohort.broker.quotas.meter import IDLE_MS_MAX, RATES_MAX, Meter, Windows
from kohort.broker.quotas.rates import SampledRate, TokenBucket

BEGAN_MS = 1_700_000_000_000
USER, CLIENT, IP = "user", "client-id", "ip"


def meter_of(*quotas: tuple[dict[str, str | None], dict[str, float]]) -> Meter:
    book = Book()
    for entity, values in quotas:
        book.put(entity, values)
    return Meter(book, Windows(11, 1), Windows(11, 1))


# -- rates ------------------------------------------------------------------------------------------------


def test_a_new_rate_counts_over_all_windows_but_one() -> None:
    rate = SampledRate(11, 1_000)
    rate.record(1_000, BEGAN_MS)
    assert rate.rate(BEGAN_MS) == 100
    assert rate.span_ms(BEGAN_MS) == 10_000
    assert rate.span_ms(BEGAN_MS + 500) == 10_500


def test_old_samples_do_not_count() -> None:
    rate = SampledRate(3, 1_000)
    rate.record(600, BEGAN_MS)
    assert rate.rate(BEGAN_MS + 2_000) == 300
    assert rate.rate(BEGAN_MS + 2_999) == pytest.approx(200, rel=0.01)
    assert rate.rate(BEGAN_MS + 3_000) == 0


@given(st.lists(st.tuples(st.integers(0, 1_500), st.integers(0, 10_000)), max_size=60), st.integers(1, 12))
def test_a_rate_is_the_sum_of_its_windows(steps: list[tuple[int, int]], windows: int) -> None:
    rate, now_ms = SampledRate(windows, 1_000), BEGAN_MS
    samples: list[list[int]] = []
    for wait_ms, value in steps:
        now_ms += wait_ms
        rate.record(value, now_ms)
        if samples and now_ms - samples[-1][0] < 1_000:
            samples[-1][1] += value
        else:
            samples = [*samples, [now_ms, value]][-windows:]
        kept = [each for each in samples if each[0] > now_ms - windows * 1_000]
        elapsed_ms = now_ms - kept[0][0]
        span_ms = elapsed_ms + max(windows - 1 - elapsed_ms // 1_000, 0) * 1_000 or 1_000
        assert rate.rate(now_ms) == pytest.approx(sum(each[1] for each in kept) * 1_000 / span_ms)


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=200))
def test_a_client_that_waits_as_told_stays_within_its_quota(sizes: list[int]) -> None:
    rate, now_ms, total = SampledRate(11, 1_000), BEGAN_MS, 0
    for size in sizes:
        rate.record(size, now_ms)
        total += size
        now_ms += rate.throttle_ms(1_000, now_ms)
    elapsed_s = (now_ms - BEGAN_MS) / 1_000
    assert (
        total <= 1_000 * (elapsed_s + 10) + max(sizes) + 1
    )  # The first ten seconds' worth may come at once.


def test_a_bucket_gives_the_requested_amount_while_anything_is_left() -> None:
    bucket = TokenBucket(11, 2, BEGAN_MS)  # Twenty-two.
    assert bucket.take(20, 2, BEGAN_MS)
    assert bucket.throttle_ms(2, BEGAN_MS) == 0
    assert bucket.take(10, 2, BEGAN_MS)
    assert bucket.throttle_ms(2, BEGAN_MS) == 4_000
    assert not bucket.take(1, 2, BEGAN_MS + 3_000)
    assert bucket.take(1, 2, BEGAN_MS + 3_000, strictly=False)
    assert bucket.throttle_ms(2, BEGAN_MS + 3_000) == 1_500
    assert bucket.take(1, 2, BEGAN_MS + 4_500)


# -- whose ------------------------------------------------------------------------------------------------

EVERY: list[tuple[dict[str, str | None], object]] = [
    ({USER: "alice", CLIENT: "app"}, ("alice", "app")),
    ({USER: "alice", CLIENT: None}, ("alice", "app")),
    ({USER: "alice"}, "alice"),
    ({USER: None, CLIENT: "app"}, ("alice", "app")),
    ({USER: None, CLIENT: None}, ("alice", "app")),
    ({USER: None}, "alice"),
    ({CLIENT: "app"}, "app"),
    ({CLIENT: None}, "app"),
]


@pytest.mark.parametrize("first", range(len(EVERY)))
def test_the_most_specific_quota_applies(first: int) -> None:
    book = Book()
    for number, (entity, _) in enumerate(EVERY[first:], first):
        book.put(entity, {PRODUCE: 1.0 + number})
    found = book.limit(PRODUCE, "alice", "app")
    assert found is not None
    assert found.bound == 1.0 + first
    assert book.limit(FETCH, "alice", "app") is None
    for entity, _ in EVERY:
        book.put(entity, {})
    assert not book


@pytest.mark.parametrize(
    "entity, others",
    [
        ({USER: "alice"}, [("alice", "x", True), ("bob", "app", None)]),
        ({USER: None}, [("alice", "x", True), ("bob", "app", False)]),
        ({CLIENT: "app"}, [("bob", "app", True), ("alice", "x", None)]),
        ({CLIENT: None}, [("bob", "app", True), ("alice", "x", False)]),
        ({USER: "alice", CLIENT: None}, [("alice", "x", False), ("bob", "app", None)]),
    ],
)
def test_clients_share_a_quota_by_its_entity(
    entity: dict[str, str | None], others: list[tuple[str, str, bool | None]]
) -> None:
    book = Book()
    book.put(entity, {PRODUCE: 5.0})
    own = book.limit(PRODUCE, "alice", "app")
    assert isinstance(own, Limit)
    for user, client, shares in others:
        found = book.limit(PRODUCE, user, client)
        assert (found is None) == (shares is None)
        if found is not None:
            assert (found.shared_by == own.shared_by) is shares


def test_bytes_over_the_quota_cause_a_throttle_time() -> None:
    meter = meter_of(({USER: "alice"}, {PRODUCE: 1_000, FETCH: 500}))
    assert meter.produce("alice", "app", 10_000, BEGAN_MS) == 0
    assert meter.produce("alice", "other", 10_000, BEGAN_MS) == 10_000
    assert meter.produce("bob", "app", 10**9, BEGAN_MS) == 0
    assert meter.hand_out("alice", "app", 100, BEGAN_MS) == 0
    assert meter.fetched_at_once_max("alice", "app") == 5_000
    assert meter.fetched_at_once_max("bob", "app") is None


def test_the_loops_time_is_waited_for_at_most_a_window() -> None:
    meter = meter_of(({CLIENT: None}, {REQUEST: 10}))
    assert meter.record_time("alice", "app", 0.9, BEGAN_MS) == 0
    assert meter.record_time("alice", "app", 5.0, BEGAN_MS) == 1_000


def test_a_fetch_over_the_quota_gets_no_records_and_does_not_count() -> None:
    meter = meter_of(({USER: None}, {FETCH: 100}))
    assert meter.fetch("alice", "app", 900, BEGAN_MS) == (True, 0)
    assert meter.fetch("alice", "app", 200, BEGAN_MS) == (False, 1_000)
    assert meter.fetch("alice", "app", 100, BEGAN_MS) == (True, 0)
    assert meter.fetch("bob", "app", 1_000, BEGAN_MS) == (True, 0)


def test_a_batch_larger_than_all_windows_is_fetched_when_nothing_else_was() -> None:
    meter = meter_of(({USER: None}, {FETCH: 100}))
    meter.fetch("alice", "app", 1, BEGAN_MS)
    assert not meter.fetch("alice", "app", 5_000, BEGAN_MS)[0]
    is_taken, throttle_ms = meter.fetch("alice", "app", 5_000, BEGAN_MS + 11_000)
    assert (is_taken, throttle_ms) == (True, 40_000)
    assert not meter.fetch("alice", "app", 1, BEGAN_MS + 11_000)[0]


def test_partitions_are_refused_once_there_are_too_many() -> None:
    meter = meter_of(({USER: None}, {MUTATION: 1}))
    assert meter.mutate("alice", "app", 20, BEGAN_MS, strictly=True) == (True, 9_000)
    assert meter.mutate("alice", "app", 1, BEGAN_MS, strictly=True) == (False, 9_000)
    assert meter.mutate("alice", "app", 1, BEGAN_MS, strictly=False) == (True, 10_000)
    assert meter.mutate("bob", "app", 1, BEGAN_MS, strictly=True) == (True, 0)


def test_a_client_that_connects_too_often_is_delayed_and_not_counted_meanwhile() -> None:
    meter = meter_of(
        ({IP: "10.0.0.1"}, {"connection_creation_rate": 1}), ({IP: None}, {"connection_creation_rate": 2})
    )
    assert [meter.connect("10.0.0.1", BEGAN_MS) for _ in range(12)] == [0] * 10 + [1_000] * 2
    assert [meter.connect("10.0.0.2", BEGAN_MS) for _ in range(20)] == [0] * 20
    assert meter.connect("10.0.0.1", BEGAN_MS + 11_000) == 0


def test_a_quota_can_spell_its_address_as_java_does() -> None:
    meter = meter_of(({IP: "2001:DB8:0:0:0:0:0:5"}, {"connection_creation_rate": 1}))
    assert [meter.connect("2001:db8::5", BEGAN_MS) for _ in range(11)] == [0] * 10 + [1_000]


def test_rates_of_disconnected_clients_are_removed() -> None:
    meter = meter_of(({USER: None}, {PRODUCE: 1, MUTATION: 1}), ({IP: None}, {"connection_creation_rate": 1}))
    for number in range(100):
        meter.produce(f"{number}", "", 1, BEGAN_MS)
        meter.mutate(f"{number}", "", 1, BEGAN_MS, strictly=True)
        meter.connect(f"10.0.0.{number}", BEGAN_MS)
    meter.produce("new", "", 1, BEGAN_MS + 2 * IDLE_MS_MAX)
    assert len(meter._rates) == 1
    assert not meter._buckets


def test_made_up_client_names_use_bounded_memory_and_do_not_escape_quotas() -> None:
    everybody = {PRODUCE: 1.0, MUTATION: 1.0}
    meter = meter_of(({CLIENT: None}, everybody), ({USER: "slow"}, everybody))
    assert meter.produce("slow", "app", 1_000, BEGAN_MS) > 0
    for number in range(RATES_MAX + 100):
        name = f"{number}" * 4_000
        meter.produce("quick", name, 1, BEGAN_MS + number)
        meter.mutate("quick", name, 1, BEGAN_MS + number, strictly=True)
        meter.produce("slow", "app", 0, BEGAN_MS + number)
    assert len(meter._rates) <= RATES_MAX
    assert len(meter._buckets) <= RATES_MAX
    assert max(len(str(key)) for key in (*meter._rates, *meter._buckets)) < 500
    assert meter.produce("slow", "app", 0, BEGAN_MS + RATES_MAX) > 0


def test_quota_usage_is_reported_for_the_latest_users() -> None:
    meter = meter_of(
        ({USER: None}, {PRODUCE: 100, MUTATION: 1}),
        ({CLIENT: "app"}, {FETCH: 50}),
        ({IP: None}, {"connection_creation_rate": 1}),
    )
    meter.connect("10.0.0.1", BEGAN_MS)
    meter.produce("alice", "app", 2_000, BEGAN_MS)
    meter.hand_out("alice", "app", 100, BEGAN_MS + 1)
    meter.mutate("bob", "app", 13, BEGAN_MS + 2, strictly=True)
    now_ms = BEGAN_MS + 2
    assert list(meter.uses(10, now_ms)) == [
        (MUTATION, "bob", "", -2.0, 2_000),
        (FETCH, "", "app", pytest.approx(10, rel=0.01), 0),
        (PRODUCE, "alice", "", pytest.approx(200, rel=0.01), 10_000),
    ]
    assert [each.key for each in meter.uses(1, now_ms)] == [MUTATION]
    assert [each.throttle_ms for each in meter.uses(10, BEGAN_MS + 10_000)] == [0, 0, 0]
