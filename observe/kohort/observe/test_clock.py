import msgspec
import pytest

from kohort.broker.explain.observed.events import TopicsChanged
from kohort.observe.clock import LATE_MS_MAX, SPAN_MS, BrokerClock
from kohort.observe.known import cannot_know
from kohort.observe.store import Store
from kohort.observe.test_batches import batch_of, key_of, value_of
from kohort.observe.test_observer import NOW
from kohort.observe.test_watched import with_topics
from kohort.observe.watched import HOUR_MS, Watched


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


def test_a_restart_knows_the_time_of_the_brokers(store: Store) -> None:
    found = Watched(lambda: NOW, 10.0)
    found.status.cluster_id = "c"
    found.caught_up()
    found.take([batch_of((key_of(0), value_of(5), NOW + 120_000))])
    found.note(with_topics(t=1))
    found.save(store)
    again = Watched(lambda: NOW + 1_000, 10.0)
    again.status.cluster_id = "c"
    again.restore(store)
    assert again.brokers_now_ms() == NOW + 121_000
    again.note(with_topics(t=2))
    assert again.look.at_ms == NOW + 120_000  # `with_topics` looks at NOW.


def test_the_time_of_looks_does_not_go_back_unless_somebody_sets_the_clock() -> None:
    found = Watched(lambda: NOW, 10.0)
    found.note(with_topics(t=1))
    for back_ms, at_ms in ((60_000, NOW), (HOUR_MS, NOW - HOUR_MS)):
        seen = with_topics(t=1)
        found.note(seen._replace(look=msgspec.structs.replace(seen.look, at_ms=NOW - back_ms)))
        assert found.look.at_ms == at_ms
