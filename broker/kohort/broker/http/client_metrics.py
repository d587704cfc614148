"""What clients have sent (KIP-714), as metrics: under OpenTelemetry's names, with underscores for dots."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from kohort.broker.http import families
from kohort.broker.http.metric_rows import one, rows

if TYPE_CHECKING:
    from kohort.broker.telemetry.otlp import Attributes
    from kohort.broker.telemetry.reports import ClientValues
    from kohort.broker.telemetry.taking import ClientMetrics

OWN_LABELS = ("client_id", "client_instance_id", "group_id")
_INVALID = re.compile(r"[^a-zA-Z0-9_]")

Row = tuple[tuple[str, str, str], "Attributes", float]


def totals(taken: "ClientMetrics | None") -> Iterator[Metric]:
    """Yield how many clients send metrics, and what became of them."""
    reports = None if taken is None else taken.reports
    yield one(families.TELEMETRY_CLIENTS, 0 if reports is None else len(reports))
    yield one(families.TELEMETRY_SERIES, 0 if reports is None else reports.series)
    yield one(families.TELEMETRY_PUSHES, 0 if taken is None else taken.pushes)
    yield one(families.TELEMETRY_LEFT_OUT, 0 if reports is None else reports.left_out)
    refusals = {} if taken is None else taken.refusals
    yield rows(families.TELEMETRY_REFUSED, (((error.name,), n) for error, n in sorted(refusals.items())))


def client_series(clients: "Iterable[ClientValues]") -> Iterator[Metric]:
    """Yield each metric that clients have sent. Takes long where there are many: for a worker thread."""
    found: dict[str, tuple[bool, list[Row]]] = {}
    for client in clients:
        own = client.client_id, client.client_instance_id, client.group_id
        for (name, attributes), (value, is_sum) in client.values.items():
            found.setdefault(_word(name), (is_sum, []))[1].append((own, attributes, value))
    for name, (is_sum, every) in sorted(found.items()):
        yield _metric(name, every, is_sum=is_sum)


def _metric(name: str, every: list[Row], *, is_sum: bool) -> Metric:
    """Return the metric with all its series. Clients may have different attributes: the others are empty."""
    names = sorted({_label(each) for _, attributes, _ in every for each, _ in attributes})
    kind = CounterMetricFamily if is_sum else GaugeMetricFamily
    metric = kind(name, "Sent by clients (KIP-714).", labels=(*OWN_LABELS, *names))
    told = set()
    for own, attributes, value in every:
        values = {_label(each): text for each, text in attributes}
        labels = *own, *(values.get(each, "") for each in names)
        if labels not in told:  # Two names may become one.
            told.add(labels)
            metric.add_metric(labels, value)
    return metric


def _label(name: str) -> str:
    word = _word(name)
    return f"attribute_{word}" if word in OWN_LABELS else word


def _word(name: str) -> str:
    word = _INVALID.sub("_", name) or "_"
    return f"_{word}" if word[0].isdigit() else word
