"""The groups that read a topic: they have committed offsets in it, or their members subscribe to it."""

from collections.abc import Iterable, Mapping, Sequence

from kohort.broker.group.group import AnyGroup
from kohort.broker.http.group_lag import by_group, fitting, lag_of_row
from kohort.broker.http.share_lag import share_lags
from kohort.broker.http.slices import Slices
from kohort.broker.http.view import View
from kohort.broker.lag import PartitionLag

READERS_SHOWN = 50
PARTITIONS_TIMED_MAX = 2_000
"""The limit for all readers together: finding the age of unread records reads the disk."""
GROUPS_PER_SLICE = 500

Json = Mapping[str, object]


async def readers_of(view: View, topic: str) -> Json:
    """Return the readers that this broker coordinates, by lag. Gives way in between."""
    found: list[AnyGroup] = []
    slices = Slices(GROUPS_PER_SLICE)
    for group in list(view.groups()):
        if topic in group.offsets or (group.subscribed_topics and topic in group.subscribed_topics):
            found.append(group)
        await slices.did()
    timed = await view.lag(fitting((each for each in found if each.has_offsets), PARTITIONS_TIMED_MAX))
    sharing = [each.group_id for each in found if not each.has_offsets]
    shared = await share_lags(view, sharing) if sharing else {}
    lags = {**shared, **by_group(timed)}
    rows = [_row(each, [lag for lag in lags.get(each.group_id, ()) if lag.topic == topic]) for each in found]
    return {"readers": first_readers(rows), "readers_left_out": max(0, len(rows) - READERS_SHOWN)}


def first_readers(rows: Iterable[Json]) -> list[Json]:
    """Return the rows that are shown, by lag."""
    return sorted(rows, key=lambda each: (-_number(each["lag"]), str(each["group_id"])))[:READERS_SHOWN]


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _row(group: AnyGroup, lag: Sequence[PartitionLag]) -> Json:
    return {
        "group_id": group.group_id,
        "type": group.group_type,
        "state": group.state.value,
        "members": group.member_count,
        "lag": sum(each.lag or 0 for each in lag) if lag else None,
        **lag_of_row(lag),
    }
