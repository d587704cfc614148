"""The newest numbers of each client, within limits. Pure.

The numbers of a client that is silent or has ended stay for a while, because a user may ask why it ended. If
there is no room, the clients that have ended are removed first, then the clients with the oldest pushes. A
new client displaces clients of its own host before others: a client can invent ids, but not addresses.
"""

import math
from collections import OrderedDict
from collections.abc import Iterable
from sys import getsizeof
from typing import NamedTuple
from uuid import UUID

import msgspec

from kohort.broker.telemetry.otlp import TEXT_MAX, Attributes, Point, Resource

CLIENTS_MAX = 2_000
CLIENTS_PER_HOST_MAX = 200
SERIES_PER_CLIENT_MAX = 500
SIZE_BYTES_MAX = 8 * 1024 * 1024
"""Of all clients together."""
SIZE_PER_HOST_BYTES_MAX = SIZE_BYTES_MAX // 2
CLIENT_BYTES, SERIES_BYTES, ATTRIBUTE_BYTES = 1_000, 300, 72
"""What a client, a series and an attribute take beside their texts."""
INTERVALS_KEPT = 3
KEPT_MS_MIN = 600_000

PEAK_MS_MAX = 600_000
PEAK_MAX = 365 * 86_400_000
"""A year in milliseconds. A higher number is no duration, and is kept as this one."""
PEAK_BYTES = 250
CONSUMER = "org.apache.kafka.consumer."
"""What the names of a consumer's metrics begin with (KIP-714)."""
PEAKS = frozenset(
    f"{CONSUMER}{each}"
    for each in (
        "time.between.poll.max",
        "last.poll.seconds.ago",
        "coordinator.commit.latency.max",
        "coordinator.rebalance.latency.max",
        "coordinator.heartbeat.response.time.max",
    )
)
"""Clients forget these highest numbers after a minute, but they may say later why a member was gone."""

SeriesKey = tuple[str, Attributes]


class Peak(msgspec.Struct, frozen=True, gc=False):
    """The highest value of a metric in ten minutes, and when the client sent it first."""

    value: float
    at_ms: int


class Report:
    """What one client has sent, and when."""

    __slots__ = (
        "at_ms",
        "client_host",
        "client_id",
        "interval_ms",
        "is_ended",
        "labels",
        "peaks",
        "size_bytes",
        "software",
        "until_ms",
        "values",
    )

    def __init__(self, client_id: str, client_host: str, software: str) -> None:
        self.client_id = client_id[:TEXT_MAX]
        self.client_host = client_host
        self.software = software[:TEXT_MAX]
        self.labels: dict[str, str] = {}
        """What the client says of itself: `group_id`, `group_member_id`, `transactional_id` and the like."""
        self.values: dict[SeriesKey, tuple[float, bool]] = {}
        """The newest value of each series, of deltas their sum; and whether it only grows."""
        self.peaks: dict[str, Peak] = {}
        self.interval_ms = 0
        self.size_bytes = 0
        self.at_ms = 0
        self.until_ms = 0
        self.is_ended = False

    @property
    def group_id(self) -> str:
        """The group that it says it is a member of, or an empty text."""
        return self.labels.get("group_id", "")

    def value(self, name: str) -> float | None:
        """Return the value of a metric without attributes."""
        found = self.values.get((name, ()))
        return None if found is None else found[0]


class ClientValues(NamedTuple):
    """The series of one client."""

    client_instance_id: str
    client_id: str
    group_id: str
    values: dict[SeriesKey, tuple[float, bool]]


class _Host:
    """The clients of one address."""

    __slots__ = ("reports", "size_bytes")

    def __init__(self) -> None:
        self.reports: OrderedDict[UUID, Report] = OrderedDict()
        self.size_bytes = 0


class Reports:
    """The reports of all clients by their instance ids."""

    def __init__(self) -> None:
        self._reports: OrderedDict[UUID, Report] = OrderedDict()
        """In the order of removal, as in each host: ended clients, then the others by their newest push."""
        self._hosts: dict[str, _Host] = {}
        self.size_bytes = 0
        self.left_out = 0
        """How many values there was no room for."""

    def __len__(self) -> int:
        return len(self._reports)

    @property
    def series(self) -> int:
        """How many series all clients have."""
        return sum(len(each.values) for each in self._reports.values())

    def take(
        self, instance_id: UUID, about: Report, resources: Iterable[Resource], now_ms: int, interval_ms: int
    ) -> None:
        """Take what a client has sent; `about` says who it is, where it has sent nothing before."""
        report = self._reports.get(instance_id)
        if report is None:
            self.forget_old(now_ms)
            report = self._add_client(instance_id, about)
        self._reports.move_to_end(instance_id)
        self._hosts[report.client_host].reports.move_to_end(instance_id)
        report.is_ended = False
        report.at_ms = now_ms
        report.interval_ms = interval_ms
        report.until_ms = now_ms + max(INTERVALS_KEPT * interval_ms, KEPT_MS_MIN)
        for resource in resources:
            if resource.attributes:
                self._label(report, resource.attributes)
            for point in resource.points:
                self._add(report, point)

    def _add_client(self, instance_id: UUID, report: Report) -> Report:
        host = self._hosts.setdefault(report.client_host, _Host())
        host.reports[instance_id] = self._reports[instance_id] = report
        while len(host.reports) > CLIENTS_PER_HOST_MAX:
            self._leave_out(host.reports)
        while len(self._reports) > CLIENTS_MAX:
            self._leave_out(self._reports)
        self._grow(report, CLIENT_BYTES + getsizeof(report.client_id) + getsizeof(report.software))
        return report

    def _label(self, report: Report, attributes: Attributes) -> None:
        """Take what the client says of itself now, if there is room for it."""
        more_bytes = _size_bytes(attributes) - _size_bytes(report.labels.items())
        if self._grow(report, more_bytes):
            report.labels = dict(attributes)

    def _add(self, report: Report, point: Point) -> None:
        key = point.name, point.attributes
        before = report.values.get(key)
        if before is None:
            size_bytes = SERIES_BYTES + getsizeof(point.name) + _size_bytes(point.attributes)
            if len(report.values) >= SERIES_PER_CLIENT_MAX or not self._grow(report, size_bytes):
                self.left_out += 1
                return
        value = point.value
        if point.is_delta and before is not None:
            value += before[0]
            if not math.isfinite(value):  # Each is finite, their sum need not be.
                return
        report.values[key] = value, point.is_sum
        if point.name in PEAKS and not point.attributes:
            self._peak(report, point.name, value)

    def _peak(self, report: Report, name: str, value: float) -> None:
        """Keep a value that is higher than all of the last ten minutes."""
        value = min(value, PEAK_MAX)
        before = report.peaks.get(name)
        if before is None and not self._grow(report, PEAK_BYTES):
            return
        if before is None or value > before.value or report.at_ms - before.at_ms > PEAK_MS_MAX:
            report.peaks[name] = Peak(value, report.at_ms)

    def _grow(self, report: Report, more_bytes: int) -> bool:
        """Let the newest report take more, and others make room. Return False where there is none for it."""
        if report.size_bytes + more_bytes > SIZE_PER_HOST_BYTES_MAX:
            return False
        host = self._hosts[report.client_host]
        while host.size_bytes + more_bytes > SIZE_PER_HOST_BYTES_MAX:
            self._leave_out(host.reports)
        while self.size_bytes + more_bytes > SIZE_BYTES_MAX:
            self._leave_out(self._reports)
        for each in (report, host, self):
            each.size_bytes += more_bytes
        return True

    def _leave_out(self, reports: OrderedDict[UUID, Report]) -> None:
        """Forget the first of these reports."""
        instance_id, report = next(iter(reports.items()))
        if not report.is_ended:
            self.left_out += len(report.values)
        self._forget(instance_id)

    def end(self, instance_id: UUID) -> None:
        """Take it that a client has ended."""
        report = self._reports.get(instance_id)
        if report is not None:
            report.is_ended = True
            self._reports.move_to_end(instance_id, last=False)
            self._hosts[report.client_host].reports.move_to_end(instance_id, last=False)

    def forget_old(self, now_ms: int) -> None:
        """Forget clients that have sent nothing for a few intervals."""
        for instance_id in [each for each, report in self._reports.items() if report.until_ms < now_ms]:
            self._forget(instance_id)

    def _forget(self, instance_id: UUID) -> None:
        report = self._reports.pop(instance_id)
        host = self._hosts[report.client_host]
        del host.reports[instance_id]
        host.size_bytes -= report.size_bytes
        self.size_bytes -= report.size_bytes
        if not host.reports:
            del self._hosts[report.client_host]

    def values(self, now_ms: int) -> list[ClientValues]:
        """Return a copy of the series of all clients that run, for another thread."""
        self.forget_old(now_ms)
        return [
            ClientValues(str(instance_id), each.client_id, each.group_id, dict(each.values))
            for instance_id, each in self._reports.items()
            if not each.is_ended
        ]

    def of_group(self, group_id: str, now_ms: int) -> list[Report]:
        """Return the reports of clients that say they are in a group, also if they have ended lately."""
        self.forget_old(now_ms)
        return [each for each in self._reports.values() if each.group_id == group_id]


def _size_bytes(attributes: Iterable[tuple[str, str]]) -> int:
    return sum(ATTRIBUTE_BYTES + getsizeof(name) + getsizeof(text) for name, text in attributes)
