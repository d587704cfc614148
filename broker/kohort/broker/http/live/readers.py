"""Which groups read a topic: those that have committed in it, and those whose members subscribe to it."""

from collections.abc import Iterable, Mapping, Sequence

import trio

from kohort.broker.group.group import AnyGroup
from kohort.broker.http.share_lag import share_lags
from kohort.broker.http.view import View
from kohort.broker.lag import PartitionLag, worst

READERS_SHOWN = 50
PARTITIONS_TIMED_MAX = 2_000
"""Of all readers together: finding the age of what is unread reads the disk."""
GROUPS_PER_SLICE = 500

Json = Mapping[str, object]


async def readers_of(view: View, topic: str) -> Json:
    """Return the groups that this broker coordinates, those furthest behind first. Gives way in between."""
    found: list[AnyGroup] = []
    for count, group in enumerate(list(view.groups()), start=1):
        if topic in group.offsets or (group.subscribed_topics and topic in group.subscribed_topics):
            found.append(group)
        if not count % GROUPS_PER_SLICE:
            await trio.lowlevel.checkpoint()
    timed = await view.lag(_within(each for each in found if each.has_offsets))
    sharing = [each.group_id for each in found if not each.has_offsets]
    shared = await share_lags(view, sharing) if sharing else {}
    lags: dict[str, list[PartitionLag]] = {group_id: list(each) for group_id, each in shared.items()}
    for each in timed:
        lags.setdefault(each.group_id, []).append(each)
    rows = [_row(each, [lag for lag in lags.get(each.group_id, ()) if lag.topic == topic]) for each in found]
    return {"readers": first_readers(rows), "readers_left_out": max(0, len(rows) - READERS_SHOWN)}


def first_readers(rows: Iterable[Json]) -> list[Json]:
    """Return those that are shown."""
    return sorted(rows, key=lambda each: (-_number(each["lag"]), str(each["group_id"])))[:READERS_SHOWN]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _within(groups: Iterable[AnyGroup]) -> Sequence[AnyGroup]:
    room, found = PARTITIONS_TIMED_MAX, []
    for group in groups:
        room -= sum(map(len, group.offsets.values()))
        if room < 0:
            break
        found.append(group)
    return found


def _row(group: AnyGroup, lag: Sequence[PartitionLag]) -> Json:
    verdicts = [each.verdict for each in lag if each.verdict is not None]
    return {
        "group_id": group.group_id,
        "type": group.group_type,
        "state": group.state.value,
        "members": group.member_count,
        "lag": sum(each.lag or 0 for each in lag) if lag else None,
        "lag_seconds": max((each.lag_seconds for each in lag if each.lag_seconds is not None), default=None),
        "verdict": worst(*verdicts) if verdicts else None,
    }
