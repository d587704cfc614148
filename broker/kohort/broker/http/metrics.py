"""The metrics page: facts gathered in the loop's thread, written as text in another, kept for a second."""

from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING

import trio
from prometheus_client import GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from kohort.broker.http import client_metrics, families
from kohort.broker.http.facts import Facts, gather
from kohort.broker.http.metric_rows import histogram, one, rows
from kohort.broker.http.readiness import not_ready
from kohort.broker.http.replica_metrics import replica_metrics
from kohort.broker.http.table_metrics import tables, totals
from kohort.broker.http.table_text import add_tables
from kohort.broker.http.view import View
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import api_of

if TYPE_CHECKING:
    from kohort.broker.telemetry.reports import ClientValues

PAGE_SECONDS = 1.0  # Rendering is slow, and nobody needs it more often.


class BrokerCollector:
    """A Prometheus collector: reads the broker when asked. The loop's thread only."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._version = version("kohort")

    def collect(self) -> Iterator[Metric]:
        """Return every family with its values."""
        view = self._view
        yield rows(families.INFO, [((self._version, view.cluster_id, str(view.node_id)), 1)])
        yield from self._health()
        yield from self._requests()
        yield from self._data()
        yield from self._groups()
        yield from self._rebalances()
        yield from self._as_kafka()
        yield from replica_metrics(view.replicas(), view.counters.leaderships)
        yield from self._quotas()
        yield from client_metrics.totals(view.telemetry())

    def _health(self) -> Iterator[Metric]:
        health = self._view.health
        yield one(families.READY, int(not not_ready(self._view)))
        for family, size_bytes in (
            (families.DISK_FREE, health.disk.free_bytes),
            (families.DISK_TOTAL, health.disk.total_bytes),
        ):
            yield rows(family, [] if size_bytes is None else [((), size_bytes)])
        yield one(families.LOOP_LAG, health.loop_lag.seconds_max)
        tasks = health.tasks
        yield rows(families.TASK_UP, (((task.name,), int(task.reason() is None)) for task in tasks))
        yield rows(families.TASK_RESTARTS, (((task.name,), task.restarts) for task in tasks))

    def _requests(self) -> Iterator[Metric]:
        counters = self._view.counters
        yield rows(
            families.REQUESTS,
            (((_name(key),), count) for key, count in sorted(counters.transport.requests.items())),
        )
        yield rows(
            families.REQUEST_ERRORS,
            (
                ((ErrorCode(code).name,), count)
                for code, count in sorted(counters.transport.request_errors.items())
            ),
        )
        yield one(families.MALFORMED_REQUESTS, counters.transport.malformed_requests)
        yield one(families.BYTES_IN, counters.transport.bytes_in)
        yield one(families.BYTES_OUT, counters.transport.bytes_out)
        yield one(families.CONNECTIONS, self._view.connections())
        yield one(families.CONNECTIONS_ACCEPTED, counters.transport.connections_accepted)
        yield one(families.CONNECTIONS_STALLED, counters.transport.stalled_connections)
        yield one(families.HANDSHAKES_FAILED, counters.transport.failed_handshakes)
        yield one(families.AUTHENTICATIONS, counters.transport.authentications)
        yield one(families.AUTHENTICATIONS_FAILED, counters.transport.failed_authentications)
        yield one(families.LOCKED_OUT, counters.transport.locked_out)
        yield one(families.AUDIT_LINES_LOST, counters.transport.audit_lines_lost)
        yield one(families.AUTHENTICATIONS_EXPIRED, counters.transport.expired_connections)

    def _data(self) -> Iterator[Metric]:
        counters = self._view.counters
        yield one(families.PRODUCED_BATCHES, counters.partitions.produced_batches)
        yield one(families.PRODUCED_RECORDS, counters.partitions.produced_records)
        yield one(families.PRODUCED_BYTES, counters.partitions.produced_bytes)
        yield one(families.FETCHED_BYTES, counters.partitions.fetched_bytes)
        yield one(families.FETCH_SESSIONS, self._view.fetch_sessions())
        yield one(families.FETCH_SESSIONS_EVICTED, self._view.fetch_sessions_evicted())
        yield histogram(families.FLUSHES, counters.partitions.flush_seconds)
        yield one(families.FLUSH_FAILURES, counters.partitions.flush_failures)
        cleaning = counters.partitions.cleaning
        yield one(families.CLEANER_ROUNDS, cleaning.rounds)
        yield one(families.CLEANER_SECONDS, cleaning.seconds)
        yield one(families.CLEANER_READ, cleaning.read_bytes)
        yield one(families.CLEANER_WRITTEN, cleaning.written_bytes)
        yield one(families.CLEANER_DIRTY_RATIO, cleaning.dirty_ratio_max)
        yield one(families.CLEANER_UNCLEANABLE, cleaning.uncleanable)
        yield one(families.SEGMENTS_DELETED, cleaning.deleted_segments)
        yield one(families.PRODUCERS_EXPIRED, cleaning.expired_producers)

    def _groups(self) -> Iterator[Metric]:
        counters = self._view.counters
        yield one(families.SHARDS_LOADING, len(self._view.loading()))
        yield one(families.OFFSET_COMMITS, counters.groups.offset_commits)
        yield one(families.OFFSET_FETCHES, counters.groups.offset_fetches)

    def _rebalances(self) -> Iterator[Metric]:
        counters = self._view.counters
        yield rows(
            families.REBALANCES,
            (((cause.lower(),), count) for cause, count in sorted(counters.groups.rebalances.items())),
        )
        yield histogram(families.REBALANCE_SECONDS, counters.groups.rebalance_pauses)
        yield histogram(families.REBALANCE_JOIN_SECONDS, counters.groups.rebalance_joins)
        yield histogram(families.REBALANCE_SYNC_SECONDS, counters.groups.rebalance_syncs)
        yield one(families.PARTITIONS_MOVED, counters.groups.partitions_moved)
        yield one(families.STILL_SECONDS, counters.groups.still_seconds)
        yield one(families.MEMBERS_EXPIRED, counters.groups.members_expired)
        yield one(families.MEMBERS_FENCED, counters.groups.members_fenced)
        yield one(families.DEAD_LETTERS, counters.groups.dead_letters)
        yield one(families.DEAD_LETTERS_MISSING, counters.groups.dead_letters_missing)
        yield one(families.GROUP_EVENTS, counters.groups.group_events)
        yield one(families.GROUP_EVENTS_DROPPED, counters.groups.group_events_dropped)
        yield rows(
            families.OFFSETS_REMOVED,
            (((reason,), count) for reason, count in sorted(counters.groups.offsets_removed.items())),
        )
        yield histogram(families.SHARD_LOAD_SECONDS, counters.groups.shard_loads)

    def _as_kafka(self) -> Iterator[Metric]:
        """Yield what Kafka's coordinator counts, under its names."""
        counters = self._view.counters
        loads, removed = counters.groups.shard_loads, counters.groups.offsets_removed
        expired = removed.get("expired", 0)
        yield rows(families.NUM_PARTITIONS, (((state,), n) for state, n in self._view.shards().items()))
        yield one(families.PARTITION_LOAD_TIME_MAX, counters.groups.shard_load_seconds_max * 1000)
        yield one(families.PARTITION_LOAD_TIME_AVG, loads.sum_seconds * 1000 / max(loads.count, 1))
        yield one(families.OFFSET_COMMIT_COUNT, counters.groups.offset_commits)
        yield one(families.OFFSET_EXPIRATION_COUNT, expired)
        yield one(families.OFFSET_DELETION_COUNT, sum(removed.values()) - expired)
        yield one(families.REBALANCE_COUNT, counters.groups.rebalances_completed)

    def _quotas(self) -> Iterator[Metric]:
        """Yield what Kafka's quota managers tell of each client, under their names."""
        uses = list(self._view.quota_uses())
        for key, family in families.QUOTA_USES.items():
            throttles = families.QUOTA_THROTTLES[key]
            found = [each for each in uses if each.key == key]
            yield rows(family, (((each.user, each.client_id), each.value) for each in found))
            yield rows(throttles, (((each.user, each.client_id), each.throttle_ms) for each in found))


def _name(api_key: int) -> str:
    api = api_of(api_key)
    return str(api_key) if api is None else api.name


class _Gathered:
    """What was gathered, for an encoder that collects in another thread."""

    def __init__(self, metrics: list[Metric], facts: Facts, clients: "list[ClientValues]") -> None:
        self._metrics = metrics
        self._facts = facts
        self._clients = clients

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that are no tables."""
        yield from self._metrics
        yield from totals(self._facts)
        yield from client_metrics.client_series(self._clients)

    def page(self, encode: Callable[["_Gathered"], bytes]) -> bytes:
        """Return all of it as text. Takes long: for a worker thread."""
        return add_tables(encode(self), tables(self._facts))


class MetricsPage:
    """The page in each of its formats; asked again within a second it is not written anew."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(BrokerCollector(view))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._pages: dict[str, tuple[float, bytes]] = {}
        self._writing = trio.Lock()

    async def page(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type, in the format that an Accept header asks for."""
        encode, content_type = choose_encoder(accept)
        async with self._writing:
            written_at, page = self._pages.get(content_type, (-PAGE_SECONDS, b""))
            if trio.current_time() - written_at >= PAGE_SECONDS:
                now = trio.current_time()
                facts = await gather(self._view)
                taken = self._view.telemetry()
                clients = [] if taken is None else taken.reports.values(taken.now_ms())
                gathered = _Gathered(list(self.registry.collect()), facts, clients)
                page = await trio.to_thread.run_sync(gathered.page, encode)
                self._pages = {  # Formats that nobody has asked for lately are let go.
                    kind: kept for kind, kept in self._pages.items() if now - kept[0] < PAGE_SECONDS
                }
                self._pages[content_type] = (now, page)
        return page, content_type
