"""Brokers and health as the live page shows them."""

from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version

from kohort.broker.http.readiness import not_ready
from kohort.broker.http.slices import Slices
from kohort.broker.http.view import View
from kohort.broker.metadata import PartitionState

PARTITIONS_PER_SLICE = 1_000
PROBLEMS_SHOWN = 50

Json = Mapping[str, object]


class Share:
    """How many partitions a broker leads, has replicas of, and has in sync."""

    __slots__ = ("in_sync", "leaders", "replicas")

    def __init__(self) -> None:
        self.leaders = self.replicas = self.in_sync = 0


class _Cluster:
    """The partitions of the cluster, counted from the metadata."""

    def __init__(self, live: frozenset[int]) -> None:
        self.shares: defaultdict[int, Share] = defaultdict(Share)
        self.problems: list[Json] = []
        self.topics = self.partitions = self.offline = self.under_replicated = 0
        self._live = live

    def count(self, topic: str, state: PartitionState) -> None:
        """Count a partition, and note it if it is offline or lacks replicas in sync."""
        self.partitions += 1
        self.shares[state.leader].leaders += 1
        for node_id in state.replicas:
            self.shares[node_id].replicas += 1
        for node_id in state.isr:
            self.shares[node_id].in_sync += 1
        is_offline, is_short = state.leader not in self._live, len(state.isr) < len(state.replicas)
        self.offline += is_offline
        self.under_replicated += is_short
        if (is_offline or is_short) and len(self.problems) < PROBLEMS_SHOWN:
            self.problems.append(
                {
                    "topic": topic,
                    "partition": state.index,
                    "is_offline": is_offline,
                    "leader": state.leader,
                    "replicas": list(state.replicas),
                    "in_sync": list(state.isr),
                }
            )


async def health_view(view: View) -> Json:
    """Return the cluster's brokers and partitions, and the health of this broker."""
    health = view.health
    cluster = await _counted(view)
    return {
        "version": version("kohort"),
        "cluster_id": view.cluster_id,
        "node_id": view.node_id,
        "controller": view.controller(),
        "reasons": not_ready(view),
        "cluster": {
            "topics": cluster.topics,
            "partitions": cluster.partitions,
            "offline": cluster.offline,
            "under_replicated": cluster.under_replicated,
            "problems": cluster.problems,
        },
        "brokers": [
            {
                "node_id": each.node_id,
                "host": each.host,
                "port": each.port,
                "rack": each.rack,
                **_counts(cluster.shares.get(each.node_id, Share())),
            }
            for each in view.broker_states()
        ],
        "connections": view.connections(),
        "fetch_sessions": view.fetch_sessions(),
        "shards": view.shards(),
        "topics": cluster.topics,
        **await _own_logs(view),
        "disk": {"free_bytes": health.disk.free_bytes, "total_bytes": health.disk.total_bytes},
        "loop_late_seconds_max": health.loop_lag.seconds_max,
        "tasks": [
            {"name": each.name, "restarts": each.restarts, "reason": each.reason()} for each in health.tasks
        ],
    }


def _counts(share: Share) -> Json:
    return {"leaders": share.leaders, "replicas": share.replicas, "in_sync": share.in_sync}


async def _counted(view: View) -> _Cluster:
    """Return the counts of all partitions. Gives way in between."""
    cluster = _Cluster(frozenset(each.node_id for each in view.broker_states()))
    slices = Slices(PARTITIONS_PER_SLICE)
    for topic in list(view.topics()):
        cluster.topics += 1
        for state in topic.partitions:
            cluster.count(topic.name, state)
        await slices.did(len(topic.partitions))
    return cluster


async def _own_logs(view: View) -> Json:
    """Return the size of the logs that are open here, and how many do not serve. Gives way in between."""
    size = offline = 0
    slices = Slices(PARTITIONS_PER_SLICE)
    for held in list(view.partitions()):
        if held.offline is not None:
            offline += 1
        elif held.opened:
            size += held.log.size_bytes
        await slices.did()
    return {"size_bytes": size, "offline_logs": offline}
