"""From a family and its values to what the Prometheus client writes."""

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    UnknownMetricFamily,
)

from kohort.broker.runtime.counters import Distribution
from kohort.protocol.metric_family import Family

Rows = Iterable[tuple[tuple[str, ...], float]]
_Kind = type[CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily]
_KINDS: dict[str, _Kind] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "unknown": UnknownMetricFamily,
}


def rows(family: Family, values: Rows) -> Metric:
    """Return the metric with one sample for each (labels, value)."""
    metric = _KINDS[family.kind](family.name, family.documentation, labels=family.labels)
    for labels, value in values:
        metric.add_metric(labels, value)
    return metric


def one(family: Family, value: float) -> Metric:
    """Return a metric without labels."""
    return rows(family, [((), value)])


def histogram(family: Family, distribution: Distribution) -> Metric:
    """Return the metric with the buckets of `distribution`."""
    metric = HistogramMetricFamily(family.name, family.documentation)
    metric.add_metric((), distribution.cumulative(), distribution.sum_seconds)
    return metric
