"""Groups by descriptions alone, where `__consumer_offsets` may not be read. Pure.

A description of a classic group has no generation, no timeouts and no subscriptions: each look that differs
from the one before counts as a generation.
"""

from collections.abc import Callable, Mapping

from kohort.broker.explain.observed.events import ObservedMember
from kohort.client import GroupDescription, OffsetAndMetadata, TopicPartition
from kohort.client.admin_values import ShareGroupOffset
from kohort.observe.group import ObservedGroup
from kohort.observe.snapshots import Owners, Snapshot

SETTLED = frozenset({"Stable", "Empty", "Assigning", "Reconciling"})


def take_description(group: ObservedGroup, description: GroupDescription, at_ms: int) -> None:
    """Take over what a look has shown, where it is another thing than the last one."""
    if description.state not in SETTLED:
        return  # A rebalance is under way: its outcome is told when it is there.
    members = {
        each.member_id: ObservedMember(
            each.member_id,
            each.client_id,
            each.host,
            each.group_instance_id,
            each.topics,
            each.topic_regex or "",
        )
        for each in description.members
    }
    owners: Owners = {}
    for each in description.members:
        for topic, partitions in each.assignment.items():
            owners.setdefault(topic, {}).update(dict.fromkeys(partitions, each.member_id))
    former = group.snapshot
    assignor = description.assignor if members else ""
    if (members, owners, assignor) == (former.members, former.owners, former.protocol_name):
        return
    generation_id = description.group_epoch
    if generation_id is None:
        generation_id = former.generation_id + 1 if former.generation_id >= 0 else 0
    group.is_by_broker, group.is_described = description.group_epoch is not None, True
    group.become(Snapshot(generation_id, at_ms, assignor, members, owners))


def take_gone(group: ObservedGroup, at_ms: int) -> None:
    """Take it that the group is not there any more, and its offsets with it."""
    group.removed(at_ms)
    for topic, partition in tuple(group.places):
        group.remove(topic, partition, at_ms)


def take_share_offsets(
    group: ObservedGroup,
    offsets: Mapping[TopicPartition, ShareGroupOffset],
    end_offset: Callable[[str, int], int],
    at_ms: int,
) -> None:
    """Take over how far a share group has come. It moves as records are acknowledged, by whichever member.

    Apache Kafka keeps a start offset for a while after all before a later one is acknowledged, and says
    how many records are left: what counts is the end of the log without those.
    """
    known = {where: told for where, told in offsets.items() if told.start_offset is not None}
    for where, told in known.items():
        _take_share_offset(group, where, told, end_offset(*where), at_ms)
    group.drop(group.places.keys() - known.keys())


def _take_share_offset(
    group: ObservedGroup, where: TopicPartition, told: ShareGroupOffset, end: int, at_ms: int
) -> None:
    start, place = told.start_offset or 0, group.places.get(where)
    former, former_lag = group.share_starts.get(where), group.share_lags.pop(where, None)
    is_end_known = told.lag is None or end >= 0
    done = max(start, end - told.lag) if told.lag is not None and end >= 0 else start
    if place is None:
        group.commit(*where, done, at_ms)
    elif former is not None and start < former:
        group.commit(*where, start, at_ms)
    elif done > place.offset:
        place.offset, place.at_ms, place.progress_ms = done, at_ms, at_ms
        group.advanced += 1
    elif not is_end_known:
        return
    elif former is None:
        place.offset = done  # The start before is unknown: nobody can say whether the group was reset.
    elif told.lag is not None and done < place.offset:
        # The end may be older than the lag. That of this look is newer than the lag of the look before.
        if former_lag is not None and max(start, end - former_lag) < place.offset:
            place.offset = done
        else:
            group.share_lags[where] = told.lag
    group.share_starts[where] = start


def take_offsets(
    group: ObservedGroup, committed: Mapping[TopicPartition, OffsetAndMetadata], at_ms: int
) -> None:
    """Take over the offsets that a look has shown."""
    for where, value in committed.items():
        place = group.places.get(where)
        if place is None or place.offset != value.offset:
            group.commit(where.topic, where.partition, value.offset, at_ms)
    for topic, partition in group.places.keys() - committed.keys():
        group.remove(topic, partition, at_ms)
