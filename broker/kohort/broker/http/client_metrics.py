"""What clients have sent (KIP-714), as metrics: under OpenTelemetry's names, with underscores for dots.

Names that do not begin with `org.apache.kafka.` get a prefix: a client must never write into another family.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import Metric

from kohort.broker.http import families
from kohort.broker.http.metric_rows import one, rows

if TYPE_CHECKING:
    from kohort.broker.telemetry.reports import ClientValues
    from kohort.broker.telemetry.taking import ClientMetrics

OWN_LABELS = ("client_id", "client_instance_id", "group_id")
RESERVED_LABELS = {*OWN_LABELS, "instance", "job", "le", "quantile"}
KAFKAS = "org.apache.kafka."
CLIENTS = "client_"
"""What the names of all other metrics begin with."""
_INVALID = re.compile(r"[^a-zA-Z0-9_]")

Labels = tuple[tuple[str, str], ...]


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
    found: dict[tuple[str, bool], dict[Labels, float]] = {}
    for client in clients:
        own = {name: getattr(client, name) for name in OWN_LABELS}
        for (name, attributes), (value, is_sum) in client.values.items():
            labels = own | {_label(each): text for each, text in attributes}
            values = found.setdefault((_family(name), is_sum), {})
            values.setdefault(tuple(sorted(labels.items())), value)  # Two names may become one.
    for (name, is_sum), values in sorted(found.items()):
        yield _metric(name, values, is_sum=is_sum, is_both=(name, not is_sum) in found)


def _metric(name: str, values: dict[Labels, float], *, is_sum: bool, is_both: bool) -> Metric:
    """Return the metric with all its series, each with its own labels.

    `is_both`: others send a gauge of this name. OpenMetrics has one family of a name, and a counter's name is
    without `_total`: the counter is then a family of no type, whose name has it.
    """
    sample = f"{name}_total" if is_sum else name
    kind = "gauge" if not is_sum else "unknown" if is_both else "counter"
    metric = Metric(sample if kind == "unknown" else name, "Sent by clients (KIP-714).", kind)
    for labels, value in values.items():
        metric.add_sample(sample, dict(labels), value)
    return metric


def _family(name: str) -> str:
    """Return a name that no family of the broker has: clients choose theirs freely.

    It never ends in `_total` or `_created`, which counters of the page add to theirs.
    """
    prefix = "" if name.startswith(KAFKAS) else CLIENTS
    word = prefix + _INVALID.sub("_", name)
    while word.endswith("_total"):
        word = word.removesuffix("_total")
    return f"{word}_" if word.endswith("_created") else word


def _label(name: str) -> str:
    """Return a label that is neither ours nor one that Prometheus or its scrape sets."""
    word = _INVALID.sub("_", name)
    return f"attribute_{word}" if word in RESERVED_LABELS or not word[:1].isalpha() else word
