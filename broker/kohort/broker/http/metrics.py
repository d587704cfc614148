"""The metrics page: facts gathered in the loop's thread, written as text in another, kept for a second."""

from collections.abc import Iterable, Iterator
from importlib.metadata import version

import trio
from prometheus_client import GCCollector, Metric, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import CollectorRegistry

from kohort.broker.group.state import GroupState
from kohort.broker.http import families
from kohort.broker.http.families import Family
from kohort.broker.http.view import PartitionFacts, View
from kohort.broker.runtime.counters import Distribution
from kohort.protocol.errors import ErrorCode
from kohort.protocol.registry import APIS

PAGE_SECONDS = 1.0  # Rendering is slow, and nobody needs it more often.

Rows = Iterable[tuple[tuple[str, ...], float]]


class BrokerCollector:
    """A Prometheus collector: reads the broker when asked. The loop's thread only."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._version = version("kohort")

    def collect(self) -> Iterator[Metric]:
        """Return every family with its values."""
        view = self._view
        yield _rows(families.INFO, [((self._version, view.cluster_id, str(view.node_id)), 1)])
        yield from self._requests()
        yield from self._data()
        yield from self._groups()
        yield from _partitions(list(view.partitions()))

    def _requests(self) -> Iterator[Metric]:
        counters = self._view.counters
        yield _rows(
            families.REQUESTS,
            (((APIS[key].name,), count) for key, count in sorted(counters.requests.items())),
        )
        yield _rows(
            families.REQUEST_ERRORS,
            (((ErrorCode(code).name,), count) for code, count in sorted(counters.request_errors.items())),
        )
        yield _one(families.MALFORMED_REQUESTS, counters.malformed_requests)
        yield _one(families.BYTES_IN, counters.bytes_in)
        yield _one(families.BYTES_OUT, counters.bytes_out)
        yield _one(families.CONNECTIONS, self._view.connections())
        yield _one(families.CONNECTIONS_ACCEPTED, counters.connections_accepted)
        yield _one(families.CONNECTIONS_STALLED, counters.stalled_connections)

    def _data(self) -> Iterator[Metric]:
        counters = self._view.counters
        yield _one(families.PRODUCED_BATCHES, counters.produced_batches)
        yield _one(families.PRODUCED_RECORDS, counters.produced_records)
        yield _one(families.PRODUCED_BYTES, counters.produced_bytes)
        yield _one(families.FETCHED_BYTES, counters.fetched_bytes)
        yield _histogram(families.FLUSHES, counters.flush_seconds)
        yield _one(families.FLUSH_FAILURES, counters.flush_failures)

    def _groups(self) -> Iterator[Metric]:
        counters = self._view.counters
        states: dict[GroupState, int] = {state: 0 for state in GroupState if state is not GroupState.DEAD}
        members = 0
        for group in self._view.groups():
            states[group.state] = states.get(group.state, 0) + 1
            members += len(group.members)
        yield _rows(families.GROUPS, (((state.value,), count) for state, count in states.items()))
        yield _one(families.GROUP_MEMBERS, members)
        yield _one(families.SHARDS_LOADING, len(self._view.loading()))
        yield _one(families.OFFSET_COMMITS, counters.offset_commits)
        yield _one(families.OFFSET_FETCHES, counters.offset_fetches)
        yield _rows(
            families.REBALANCES,
            (((cause.lower(),), count) for cause, count in sorted(counters.rebalances.items())),
        )
        yield _histogram(families.REBALANCE_SECONDS, counters.rebalance_pauses)
        yield _one(families.MEMBERS_EXPIRED, counters.members_expired)
        yield _one(families.MEMBERS_FENCED, counters.members_fenced)


def _partitions(partitions: list[PartitionFacts]) -> Iterator[Metric]:
    yield _one(families.PARTITIONS, len(partitions))
    yield _one(families.PARTITIONS_OFFLINE, sum(each.offline is not None for each in partitions))
    serving = [
        ((each.topic, str(each.index)), each) for each in partitions if each.opened and each.offline is None
    ]
    yield _rows(families.LOG_START_OFFSET, ((labels, each.log.log_start_offset) for labels, each in serving))
    yield _rows(families.LOG_END_OFFSET, ((labels, each.log.log_end_offset) for labels, each in serving))
    yield _rows(families.HIGH_WATERMARK, ((labels, each.high_watermark) for labels, each in serving))
    yield _rows(families.LOG_SIZE, ((labels, each.log.size_bytes) for labels, each in serving))


def _rows(family: Family, rows: Rows) -> Metric:
    metric: CounterMetricFamily | GaugeMetricFamily
    if family.kind == "counter":
        metric = CounterMetricFamily(family.name, family.documentation, labels=family.labels)
    else:
        metric = GaugeMetricFamily(family.name, family.documentation, labels=family.labels)
    for labels, value in rows:
        metric.add_metric(labels, value)
    return metric


def _one(family: Family, value: float) -> Metric:
    return _rows(family, [((), value)])


def _histogram(family: Family, distribution: Distribution) -> Metric:
    metric = HistogramMetricFamily(family.name, family.documentation)
    metric.add_metric((), distribution.cumulative(), distribution.sum_seconds)
    return metric


class _Gathered:
    """What was gathered, for an encoder that collects in another thread."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        """Return the metrics."""
        return self._metrics


class MetricsPage:
    """The page in each of its formats; asked again within a second it is not written anew."""

    def __init__(self, view: View) -> None:
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
                page = await trio.to_thread.run_sync(encode, _Gathered(list(self.registry.collect())))
                self._pages = {  # Formats that nobody has asked for lately are let go.
                    kind: kept for kind, kept in self._pages.items() if now - kept[0] < PAGE_SECONDS
                }
                self._pages[content_type] = (now, page)
        return page, content_type
