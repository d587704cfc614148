"""The newest numbers of each client, within limits. Pure.

A client that sends no more, or says that it ends, is kept for a while: why it ended may be asked. Where there
is no room for another client or another series it is left out, and counted: those that are there stay whole.
"""

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from kohort.broker.telemetry.otlp import Attributes, Point, Resource

CLIENTS_MAX = 2_000
SERIES_PER_CLIENT_MAX = 500
SIZE_BYTES_MAX = 4 * 1024 * 1024
"""Of all series together, by their texts."""
SERIES_BYTES = 200
"""What a series takes beside its texts."""
INTERVALS_KEPT = 3
KEPT_MS_MIN = 600_000

SeriesKey = tuple[str, Attributes]


class Report:
    """What one client has sent, and when."""

    __slots__ = (
        "at_ms",
        "client_host",
        "client_id",
        "is_ended",
        "labels",
        "size_bytes",
        "software",
        "until_ms",
        "values",
    )

    def __init__(self, client_id: str, client_host: str, software: str) -> None:
        self.client_id = client_id
        self.client_host = client_host
        self.software = software
        self.labels: dict[str, str] = {}
        """What the client says of itself: `group_id`, `group_member_id`, `transactional_id` and the like."""
        self.values: dict[SeriesKey, tuple[float, bool]] = {}
        """The newest value of each series, of deltas their sum; and whether it only grows."""
        self.size_bytes = 0
        self.at_ms = 0
        self.until_ms = 0
        self.is_ended = False

    @property
    def group_id(self) -> str:
        """The group that it is a member of, or an empty text."""
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


class Reports:
    """The reports of all clients by their instance ids."""

    def __init__(self) -> None:
        self._reports: dict[UUID, Report] = {}
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
            if len(self._reports) >= CLIENTS_MAX:
                self.left_out += sum(len(each.points) for each in resources)
                return
            report = self._reports[instance_id] = about
        report.at_ms = now_ms
        report.until_ms = now_ms + max(INTERVALS_KEPT * interval_ms, KEPT_MS_MIN)
        for resource in resources:
            report.labels = dict(resource.attributes) or report.labels
            for point in resource.points:
                self._add(report, point)

    def _add(self, report: Report, point: Point) -> None:
        key = point.name, point.attributes
        before = report.values.get(key)
        if before is None:
            size_bytes = SERIES_BYTES + len(point.name) + sum(len(a) + len(b) for a, b in point.attributes)
            is_full = self.size_bytes + size_bytes > SIZE_BYTES_MAX
            if is_full or len(report.values) >= SERIES_PER_CLIENT_MAX:
                self.left_out += 1
                return
            self.size_bytes += size_bytes
            report.size_bytes += size_bytes
        value = point.value
        if point.is_delta and before is not None:
            value += before[0]
        report.values[key] = value, point.is_sum

    def end(self, instance_id: UUID) -> None:
        """Take it that a client has ended."""
        if instance_id in self._reports:
            self._reports[instance_id].is_ended = True

    def forget_old(self, now_ms: int) -> None:
        """Forget clients that have sent nothing for a few intervals."""
        for instance_id in [each for each, report in self._reports.items() if report.until_ms < now_ms]:
            self.size_bytes -= self._reports.pop(instance_id).size_bytes

    def values(self, now_ms: int) -> list[ClientValues]:
        """Return a copy of the series of all clients that run, for another thread."""
        self.forget_old(now_ms)
        return [
            ClientValues(str(instance_id), each.client_id, each.group_id, dict(each.values))
            for instance_id, each in self._reports.items()
            if not each.is_ended
        ]

    def of_group(self, group_id: str, now_ms: int) -> list[Report]:
        """Return the reports of the members of a group, also of those that have ended lately."""
        self.forget_old(now_ms)
        return [each for each in self._reports.values() if each.group_id == group_id]
