"""The lag of some groups for a page: of which groups it is found, and what is shown of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kohort.broker.group.group import AnyGroup
from kohort.broker.lag import PartitionLag, worst


def fitting(groups: Iterable[AnyGroup], partitions_max: int) -> Iterator[AnyGroup]:
    """Yield the groups whose partitions fit, and skip others: a sum over half a group would be wrong."""
    room = partitions_max
    for group in groups:
        needed = sum(map(len, group.offsets.values()))
        if needed <= room:
            room -= needed
            yield group


def by_group(lag: Iterable[PartitionLag]) -> dict[str, list[PartitionLag]]:
    """Return the lag of each group by its id."""
    found: dict[str, list[PartitionLag]] = {}
    for each in lag:
        found.setdefault(each.group_id, []).append(each)
    return found


def lag_of_row(lag: Sequence[PartitionLag]) -> Mapping[str, object]:
    """Return the age and the verdict of a group for its row."""
    verdicts = [each.verdict for each in lag if each.verdict is not None]
    return {
        "lag_seconds": max((each.lag_seconds for each in lag if each.lag_seconds is not None), default=None),
        "verdict": worst(*verdicts) if verdicts else None,
    }
