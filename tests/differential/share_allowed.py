"""Where kohort answers otherwise than Apache Kafka of share groups, on purpose, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

from tests.differential import newer_allowed
from tests.differential.newer_allowed import NewerAllowed
from tests.differential.told import Ask, Rendered

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST, INVALID_RECORD_STATE = 3, 42, 121
SOON_MS = 100
UNTOLD = -1


def _comes_soon(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    later = {"heartbeat_interval_ms": theirs.get("heartbeat_interval_ms")}
    return (
        ask.name == "ShareGroupHeartbeat"
        and ours["heartbeat_interval_ms"] == SOON_MS
        and ours | later == theirs
    )


def _other_parties(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    if ask.name != "ShareFetch":
        return False
    acquired = [
        [each["acquired_records"] for topic in answer["responses"] for each in topic["partitions"]]
        for answer in (ours, theirs)
    ]
    return len(acquired[0]) == len(acquired[1]) and any(
        one
        and other
        and one[0]["first_offset"] == other[0]["first_offset"]
        and one[0]["delivery_count"] == other[0]["delivery_count"] > 1
        for one, other in zip(*acquired, strict=True)
    )


def _gives_all_back(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    if ask.name == "ShareAcknowledge":  # Its member has them still.
        return _codes(ours) != _codes(theirs) == [NONE] and _codes(ours) == [INVALID_RECORD_STATE]
    if ask.name != "ShareFetch" or ours["error_code"] or theirs["error_code"]:
        return False
    counts, their_counts = _deliveries(ours), _deliveries(theirs)
    if not counts:
        return False
    first = min(counts)
    return counts[first] > 1 and (not their_counts or first < min(their_counts))


def _counts_less(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    if ask.name != "ShareFetch":
        return False
    counts, their_counts = _deliveries(ours), _deliveries(theirs)
    return counts.keys() == their_counts.keys() and all(
        0 <= count - their_counts[each] <= 1 for each, count in counts.items()
    )


def _codes(answer: Rendered) -> list[int]:
    """Return what is said of each partition of which records were acknowledged."""
    return [each["error_code"] for topic in answer["responses"] for each in topic["partitions"]]


def _overlaps(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    is_odd = ask.text.count("Words(") > 1 or "first=-1" in ask.text
    return ask.name == "ShareAcknowledge" and is_odd and _codes(ours) == [INVALID_REQUEST]


def _described_alike(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    if ask.name != "DescribeShareGroupOffsets":
        return False
    ours = deepcopy(ours)
    told = {(topic["topic_name"], each["partition_index"]): each for topic, each in _offsets(ours)}
    for topic, each in _offsets(theirs):
        same: Rendered = told.get((topic["topic_name"], each["partition_index"]), each)
        if each["start_offset"] == each["lag"] == UNTOLD:
            same["start_offset"] = same["lag"] = UNTOLD
        if each["start_offset"] < same["start_offset"] and 0 <= same["lag"] < each["lag"]:
            same["lag"] = each["lag"]  # As it was with that start.
        same["start_offset"] = min(same["start_offset"], each["start_offset"])
        if same["lag"] == 0 > each["lag"] and each["start_offset"] >= 0:
            same["lag"] = each["lag"]
    return bool(ours == theirs)


def _deliveries(answer: Rendered) -> dict[tuple[str, int], int]:
    """Return which records are handed out, and how often that was."""
    return {
        (topic["topic_id"], offset): each["delivery_count"]
        for topic in answer["responses"]
        for partition in topic["partitions"]
        for each in partition["acquired_records"]
        for offset in range(each["first_offset"], each["last_offset"] + 1)
    }


def _is_done(ask: Ask, ours: Rendered, theirs: Rendered) -> bool:
    field = {"ShareAcknowledge": "error_code", "ShareFetch": "acknowledge_error_code"}.get(ask.name)
    if field is None:
        return False
    ours = deepcopy(ours)
    pairs = zip(ours["responses"], theirs["responses"], strict=False)
    for one, other in (
        (a, b) for mine, their in pairs for a, b in zip(mine["partitions"], their["partitions"], strict=False)
    ):
        if one[field] == UNKNOWN_TOPIC_OR_PARTITION and other[field] in (
            INVALID_REQUEST,
            INVALID_RECORD_STATE,
        ):
            one[field] = other[field]
    return bool(ours == theirs)


def _offsets(answer: Rendered) -> Iterator[tuple[Rendered, Rendered]]:
    """Yield each topic with each of its partitions."""
    for group in answer["groups"]:
        for topic in group["topics"]:
            for partition in topic["partitions"]:
                yield topic, partition


SHARE_ALLOWED = (
    NewerAllowed(
        name="a group is described that has read nothing of a partition, or a run of it, or begins behind "
        "its end",
        kohort="with where it begins; with the start behind them; with a lag of 0",
        kafka="with neither start nor lag; with the start as it was until the next write; with a lag below 0",
        reason="kohort keeps where a group begins before anybody gets a record, and state says the rest",
        holds=_described_alike,
    ),
    NewerAllowed(
        name="a session ends whose member has acknowledged some of the records that it got together",
        kohort="those that come back were delivered",
        kafka="they were not; but they were where none of them was acknowledged",
        reason="a record that ends its members has to be given up some day",
        holds=_counts_less,
        ends=True,
    ),
    NewerAllowed(
        name="a request says something of one record twice, or of one before the first",
        kohort="INVALID_REQUEST",
        kafka="now and then the same: not where a run begins with the last record of the one before",
        reason="only one of them can count",
        holds=_overlaps,
        ends=True,
    ),
    NewerAllowed(
        name="a session ends whose member holds records of partitions that it fetches no more",
        kohort="they come back at once",
        kafka="when their locks end",
        reason="the member that had them is gone",
        holds=_gives_all_back,
        ends=True,
    ),
    NewerAllowed(
        name="a member says something of records that it does not hold, where nobody has any in hand",
        kohort="UNKNOWN_TOPIC_OR_PARTITION",
        kafka="INVALID_REQUEST or INVALID_RECORD_STATE, if it has read of that partition before",
        reason="kohort keeps nothing in memory of what is not in use",
        holds=_is_done,
    ),
    NewerAllowed(
        name="records come back, above all such as had half of the deliveries that they may have",
        kohort="half of those beside each other are handed out, then fewer, and each by itself in the end",
        kafka="the same of those that were first acquired together",
        reason="kohort keeps no such parties",
        holds=_other_parties,
        ends=True,
    ),
    NewerAllowed(
        name="a member joins whose partitions nobody has read in this group yet",
        kohort="shall send its next heartbeat after 100 ms",
        kafka="after `group.share.heartbeat.interval.ms`, 5 s",
        reason="by then their state is kept, and it gets them",
        holds=_comes_soon,
    ),
)


def allowed(ask: Ask, ours: Rendered, theirs: Rendered) -> NewerAllowed | None:
    """Return the difference that this is, of any kind of group; None where it is none of those."""
    known = newer_allowed.allowed(ask, ours, theirs)
    return known or next((each for each in SHARE_ALLOWED if each.holds(ask, ours, theirs)), None)
