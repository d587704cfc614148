import math

import pytest

from kohort.client import metrics
from kohort.client.metrics import WINDOW_MS, Gauge, Meter, MetricName, Metrics


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [1_000_000]
    monkeypatch.setattr(metrics, "monotonic_ms", lambda: now[0])
    return now


def test_a_meter_has_a_total_and_a_rate(clock: list[int]) -> None:
    meter = Meter()
    clock[0] += 10_000
    meter.record(500)
    assert (meter.total, meter.rate) == (500, 50)
    clock[0] += 2 * WINDOW_MS
    assert (meter.total, meter.rate) == (500, 0)


def test_a_gauge_drops_values_older_than_two_windows(clock: list[int]) -> None:
    gauge = Gauge()
    assert math.isnan(gauge.average)
    assert math.isnan(gauge.maximum)
    gauge.record(10)
    clock[0] += WINDOW_MS
    gauge.record(30)
    assert (gauge.average, gauge.maximum) == (20, 30)
    clock[0] += WINDOW_MS
    assert (gauge.average, gauge.maximum) == (30, 30)
    clock[0] += WINDOW_MS
    assert math.isnan(gauge.average)


def test_metrics_carry_the_client_and_their_own_tags() -> None:
    registry = Metrics("me")
    registry.meter("consumer-metrics", "poll")
    registry.value("consumer-fetch-manager-metrics", "records-lag", lambda: 7.0, topic="t", partition="0")
    lag = MetricName(
        "consumer-fetch-manager-metrics",
        "records-lag",
        (("client-id", "me"), ("topic", "t"), ("partition", "0")),
    )
    assert registry.read()[lag] == 7
    assert str(lag) == "consumer-fetch-manager-metrics:records-lag,client-id=me,topic=t,partition=0"


def test_an_external_counter_has_a_rate_too(clock: list[int]) -> None:
    registry = Metrics("me")
    total = [0.0]
    registry.counted("g", "records", lambda: total[0])
    registry.also(lambda: [(MetricName("g", "of-a-source"), 3.0)])

    def read() -> dict[str, float]:
        return {each.name: value for each, value in registry.read().items()}

    clock[0] += 10_000
    total[0] = 1_000
    assert read() == {"records-total": 1_000, "records-rate": 100, "of-a-source": 3}
    for _ in range(5):
        clock[0] += WINDOW_MS
        last = read()
    assert last["records-rate"] == 0
