"""The metrics of `kohort queue`, `kohort forward` and `kohort region`, as /metrics has them."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kohort.protocol.metric_family import Family

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_TOPIC = ("topic",)
_NAME = ("name",)
_ROUTE = ("name", "route")
_MEMBER = ("region", "member")

QUEUE: dict[str, Family] = {  # By what RedeliveryTracker.metrics() calls it.
    "partitions": Family(
        "kohort_queue_partitions", "gauge", _TOPIC, "Partitions of the markers topic that this tracker has."
    ),
    "open": Family("kohort_queue_open", "gauge", _TOPIC, "Records that were taken and not ended."),
    "overdue": Family("kohort_queue_overdue", "gauge", _TOPIC, "Open records whose time is over."),
    "oldest_open_ms": Family(
        "kohort_queue_oldest_open_seconds",
        "gauge",
        _TOPIC,
        "For how long the oldest open record has been open; 0 where none is.",
    ),
    "redelivered": Family(
        "kohort_queue_redelivered_total", "counter", _TOPIC, "Records that were written again."
    ),
    "dead": Family(
        "kohort_queue_dead_total",
        "counter",
        _TOPIC,
        "Records that became dead letters after their last redelivery.",
    ),
    "vanished": Family(
        "kohort_queue_vanished_total",
        "counter",
        _TOPIC,
        "Records that were gone from the topic when they were due.",
    ),
}

QUEUE_WORKER: dict[str, Family] = {  # By what QueueWorker.status() calls it.
    "running": Family("kohort_queue_worker_running", "gauge", _TOPIC, "Records that a worker works on now."),
    "waiting": Family(
        "kohort_queue_worker_waiting", "gauge", _TOPIC, "Records that a worker has taken and not begun."
    ),
}
QUEUE_WORKER_RECORDS = Family(
    "kohort_queue_worker_records_total",
    "counter",
    ("topic", "outcome"),
    "Records by what a worker made of them: done, failed, released, rejected.",
)

FORWARD: dict[str, Family] = {  # By what Forwarder.status() calls it.
    "running": Family("kohort_forward_running", "gauge", _NAME, "Pushes of a destination under way."),
    "concurrency_limit": Family(
        "kohort_forward_concurrency_limit", "gauge", _NAME, "How many pushes may be under way now."
    ),
    "unfinished": Family(
        "kohort_forward_unfinished", "gauge", _NAME, "Records that were read and are not done."
    ),
    "delayed": Family(
        "kohort_forward_delayed", "gauge", _NAME, "Records that were read and wait for their time."
    ),
    "uncommitted": Family(
        "kohort_forward_uncommitted", "gauge", _NAME, "Records that were read and cannot be committed yet."
    ),
}
FORWARD_CIRCUIT = Family(
    "kohort_forward_circuit_open", "gauge", _NAME, "1 while a service of the destination is not pushed to."
)
FORWARD_RECORDS = Family(
    "kohort_forward_records_total",
    "counter",
    ("name", "action"),
    "Records by what became of them: done, retry, stash, skip, dead, unreached, relieved, apart.",
)
ROUTE_RUNNING = Family("kohort_forward_route_running", "gauge", _ROUTE, "Pushes of a route under way.")
ROUTE_CIRCUIT = Family(
    "kohort_forward_route_circuit_open", "gauge", _ROUTE, "1 while the route's service is not pushed to."
)
ROUTE_PUSHES = Family(
    "kohort_forward_route_pushes_total", "counter", _ROUTE, "Pushes that a route has begun."
)
ROUTE_APART = Family(
    "kohort_forward_route_apart",
    "gauge",
    _ROUTE,
    "1 while the route is behind, so that its records go through its own topic.",
)

REGION: dict[str, Family] = {  # By what RegionMember.metrics() calls it.
    "drain_ms_last": Family(
        "kohort_region_drain_seconds_last", "gauge", _MEMBER, "How long the last drain took."
    ),
    "drain_ms_most": Family(
        "kohort_region_drain_seconds_most", "gauge", _MEMBER, "How long the longest drain took."
    ),
    "partitions_assigned": Family(
        "kohort_region_partitions_assigned", "gauge", _MEMBER, "Partitions that this member has."
    ),
    "topics_consumed": Family(
        "kohort_region_topics_consumed", "gauge", _MEMBER, "Topics that this member has partitions of."
    ),
    "queued": Family("kohort_region_queued", "gauge", _MEMBER, "Records that were read and not processed."),
    "consecutive_resets": Family(
        "kohort_region_consecutive_resets",
        "gauge",
        _MEMBER,
        "Failures of the region since its last checkpoint.",
    ),
    "checkpoint": Family(
        "kohort_region_checkpoint", "gauge", _MEMBER, "The number of the region's last checkpoint."
    ),
    "processed": Family(
        "kohort_region_processed_total",
        "counter",
        _MEMBER,
        "Records that the operator has processed, those after a reset again.",
    ),
    "resets": Family("kohort_region_resets_total", "counter", _MEMBER, "Resets of the region."),
}
REGION_MEMBER_STATE = Family(
    "kohort_region_member_state", "gauge", (*_MEMBER, "state"), "1 for how the member stands."
)
REGION_PHASE = Family("kohort_region_phase", "gauge", (*_MEMBER, "state"), "1 for what the region does.")

REGION_CHECKPOINT_AGE = Family(
    "kohort_region_checkpoint_age_seconds",
    "gauge",
    _MEMBER,
    "How long ago the region's last checkpoint was; nothing before there was one.",
)
REGION_RULES = Family(
    "kohort_region_coordinator_rules",
    "gauge",
    ("region",),
    "1 where this coordinator decides, 0 where it would take over.",
)

FAMILIES = (
    *QUEUE.values(),
    *QUEUE_WORKER.values(),
    QUEUE_WORKER_RECORDS,
    *FORWARD.values(),
    FORWARD_CIRCUIT,
    FORWARD_RECORDS,
    ROUTE_RUNNING,
    ROUTE_CIRCUIT,
    ROUTE_PUSHES,
    ROUTE_APART,
    *REGION.values(),
    REGION_MEMBER_STATE,
    REGION_PHASE,
    REGION_CHECKPOINT_AGE,
    REGION_RULES,
)


def metric_of(family: Family, samples: Iterable[tuple[Sequence[str], float]]) -> "Metric":
    """Return a metric with these samples, each with the values of its labels."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(family.name.removesuffix("_total"), family.documentation, labels=family.labels)
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric
