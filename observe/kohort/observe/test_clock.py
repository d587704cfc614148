import pytest

from kohort.broker.explain.observed.events import TopicsChanged
from kohort.observe.clock import LATE_MS_MAX, SPAN_MS, BrokerClock
from kohort.observe.known import cannot_know
from kohort.observe.test_batches import batch_of, key_of, value_of
from kohort.observe.test_observer import NOW
from kohort.observe.test_watched import with_topics
from kohort.observe.watched import Watched


def clock_of(*delays_ms: int, ahead_ms: int) -> BrokerClock:
    clock = BrokerClock()
    for index, delay_ms in enumerate(delays_ms):
        now_ms = NOW + 1_000 * index
        clock.saw(now_ms + ahead_ms - delay_ms, now_ms)
    return clock


@pytest.mark.parametrize(
    ("ahead_ms", "told_ms"), [(0, 0), (1_500, 0), (120_000, 119_900), (-20_000, -20_100)]
)
def test_the_record_that_comes_soonest_tells_the_difference(ahead_ms: int, told_ms: int) -> None:
    assert clock_of(700, 100, 1_400, ahead_ms=ahead_ms).ahead_ms == told_ms


def test_records_that_waited_to_be_read_say_nothing() -> None:
    assert clock_of(LATE_MS_MAX + 1, 3 * LATE_MS_MAX, ahead_ms=0).ahead_ms == 0
    assert BrokerClock().ahead_ms == 0


def test_a_clock_that_is_set_is_known_two_spans_later() -> None:
    clock = clock_of(100, ahead_ms=120_000)
    for step in range(1, 3):
        now_ms = NOW + step * SPAN_MS
        clock.saw(now_ms - 100, now_ms)
    assert clock.ahead_ms == 0
    clock.saw(NOW - 100, NOW)
    assert clock.ahead_ms == 0, "this machine's clock was set back"


def test_looks_have_the_time_of_the_brokers_as_records_have() -> None:
    found = Watched(lambda: NOW, 10.0)
    found.note(with_topics(t=1))
    found.take([batch_of((key_of(0), value_of(5), NOW - 3_600_000))])
    found.caught_up()
    assert [*cannot_know(found)] == []
    found.take([batch_of((key_of(0), value_of(6), NOW + 120_000))])
    found.note(with_topics(t=1, u=2))
    ((_, event),) = found._cluster_news
    assert isinstance(event, TopicsChanged)
    assert event.at_ms == NOW + 120_000
    (told,) = cannot_know(found)
    assert told.startswith("exact times: the brokers' clocks are 2 min ahead of the observer's")
