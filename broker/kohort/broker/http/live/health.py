"""Brokers and health as the live page shows them."""

from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version
from itertools import islice

import trio

from kohort.broker.authorization.acls import Entry, Pattern
from kohort.broker.http.readiness import not_ready
from kohort.broker.http.view import View

PARTITIONS_PER_SLICE = 1_000
ACLS_SHOWN = 200

Json = Mapping[str, object]


class Share:
    """How many partitions a broker leads, has replicas of, and has in sync."""

    __slots__ = ("in_sync", "leaders", "replicas")

    def __init__(self) -> None:
        self.leaders = self.replicas = self.in_sync = 0


def _acl(pattern: Pattern, entry: Entry) -> Json:
    """Return who may, or may not, do what to which resource, in Kafka's words."""
    return {
        "principal": entry.principal,
        "host": entry.host,
        "permission": entry.permission.name,
        "operation": entry.operation.name,
        "resource_type": pattern.resource_type.name,
        "pattern_type": pattern.pattern_type.name,
        "name": pattern.name,
    }


async def health_view(view: View) -> Json:
    """Return the cluster's brokers, and how this one fares."""
    health = view.health
    shares = await _shares(view)
    acls = list(islice(view.acl_bindings(), ACLS_SHOWN + 1))
    return {
        "version": version("kohort"),
        "cluster_id": view.cluster_id,
        "node_id": view.node_id,
        "controller": view.controller(),
        "reasons": not_ready(view),
        "acls": [_acl(*each) for each in acls[:ACLS_SHOWN]],
        "has_more_acls": len(acls) > ACLS_SHOWN,
        "brokers": [
            {
                "node_id": each.node_id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                **_counts(shares.get(each.node_id, Share())),
            }
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


def _counts(share: Share) -> Json:
    return {"leaders": share.leaders, "replicas": share.replicas, "in_sync": share.in_sync}


async def _shares(view: View) -> Mapping[int, Share]:
    """Return what each broker has of all partitions. Gives way in between."""
    found: defaultdict[int, Share] = defaultdict(Share)
    work = 0
    for topic in list(view.topics()):
        for state in topic.partitions:
            found[state.leader].leaders += 1
            for node_id in state.replicas:
                found[node_id].replicas += 1
            for node_id in state.isr:
                found[node_id].in_sync += 1
        work += len(topic.partitions)
        if work >= PARTITIONS_PER_SLICE:
            work = 0
            await trio.lowlevel.checkpoint()
    return found
