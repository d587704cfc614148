"""Observers whose clusters are made up, with a day's history each, served as `kohort observe` serves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from kohort.cli.observer_site import ObserverSite
from kohort.cli.status_server import StatusServer
from kohort.client import PartitionInfo, TopicDescription
from kohort.client.values import Node
from kohort.observe.alerting import Alerting
from kohort.observe.brokers import counted
from kohort.observe.observer import Observer, Target
from kohort.observe.pace import Limits
from kohort.observe.pages import Pages, wall_ms
from kohort.observe.site import Site
from kohort.observe.test_day import HOUR, PARTITIONS, Day, stormy_day

LOOKS = 60
LOOK_MS = 10_000


def observer(folder: Path, name: str = "") -> Observer:
    """Return an observer that has not looked at anything."""
    servers = {"bootstrap_servers": "kafka-1:9092,kafka-2:9092"}
    target = Target(name, servers, servers)  # type: ignore[arg-type]  # They are both.
    return Observer(target, folder / f"observe{name}.db", Limits())


def live_a_day(watching: Observer) -> None:
    """Have a group storm in the night, be deployed at ten, and fall behind in the last minutes."""
    started_ms = wall_ms() - 24 * HOUR - LOOKS * LOOK_MS
    day = Day(watching, started_ms)
    stormy_day(day, seed=1)
    watched = day.watched
    day.stuck = 2
    for look in range(LOOKS):
        day.read(LOOK_MS)
        lags = [50 + look * 40 if each == day.stuck else 50 for each in range(PARTITIONS)]
        ends = {"t": {each: day.offsets[each] + lags[each] for each in range(PARTITIONS)}}
        watched.note_ends(ends, day.log.now_ms)
    day.store.close()
    topic = [PartitionInfo(each, 1 + each % 3, 0, (1, 2, 3), (1, 2, 3)) for each in range(PARTITIONS)]
    topic[5:7] = [PartitionInfo(5, 1, 0, (1, 2, 3), (1, 2)), PartitionInfo(6, -1, 0, (1, 2, 3), (2,))]
    nodes = [Node(each, f"kafka-{each}", 9092, f"rack-{each}") for each in (1, 2, 3)]
    topics = {"t": TopicDescription("t", UUID(int=7), False, tuple(topic))}
    watched.counts = counted(topics, nodes, 1, (1, 2, 3))
    watched.status.looked_ms = day.log.now_ms
    watched.status.calls, watched.status.fetches = 1_234, 567


def first_runs(folder: Path) -> list[Observer]:
    """Return observers of clusters without a known group, each for another reason."""
    none, gone, forbidden, behind = (
        observer(folder, each) for each in ("none", "gone", "forbidden", "behind")
    )
    none.watched.status.is_caught_up = True
    none.watched.status.cluster_id = "c"
    gone.watched.status.note("starting", "kafka-1:9092: connection refused")
    forbidden.watched.status.reads_records = False
    forbidden.watched.status.is_caught_up = True
    forbidden.watched.status.refused = {"ListOffsets of broker 1": "TOPIC_AUTHORIZATION_FAILED"}
    behind.watched.status.behind = 1_234_567
    return [none, gone, forbidden, behind]


@contextmanager
def served(observers: Sequence[Observer]) -> Iterator[str]:
    """Serve these at the time of their last look, and return the address. One without a name is alone."""
    looked_ms = max(each.watched.status.looked_ms for each in observers) or wall_ms()

    def now_ms() -> int:
        return looked_ms

    alerting = Alerting(observers, [], now_ms)
    names = [each.name for each in observers if each.name]
    pages = Site(observers, now_ms, alerting) if names else Pages(observers[0], now_ms, alerting)
    alerting.look()
    server = StatusServer("127.0.0.1:0", ObserverSite(pages.page, names).page)
    try:
        host, port = server.server_address[:2]
        yield f"http://{host!s}:{port}"
    finally:
        server.close()
