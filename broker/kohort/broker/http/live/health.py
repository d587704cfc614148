"""Brokers and health as the live page shows them."""

from collections.abc import Mapping
from importlib.metadata import version

from kohort.broker.http.readiness import not_ready
from kohort.broker.http.view import View

Json = Mapping[str, object]


def health_view(view: View) -> Json:
    """Return the cluster's brokers, and how this one fares."""
    health = view.health
    return {
        "version": version("kohort"),
        "cluster_id": view.cluster_id,
        "node_id": view.node_id,
        "reasons": not_ready(view),
        "brokers": [
            {"node_id": each.node_id, "host": each.host, "port": each.port, "rack": each.rack}
            for each in view.broker_states()
        ],
        "connections": view.connections(),
        "fetch_sessions": view.fetch_sessions(),
        "shards": view.shards(),
        "topics": sum(1 for _ in view.topics()),
        "disk": {"free_bytes": health.disk.free_bytes, "total_bytes": health.disk.total_bytes},
        "loop_late_seconds_max": health.loop_lag.seconds_max,
        "tasks": [
            {"name": each.name, "restarts": each.restarts, "reason": each.reason()} for each in health.tasks
        ],
    }
