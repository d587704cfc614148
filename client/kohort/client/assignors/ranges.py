"""Range: each topic's partitions in runs, so that equal numbers of several topics stay together."""

from collections.abc import Mapping

from kohort.client.assignors.subscription import Assignment, Subscription, member_order


def assign_range(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Return runs of each topic's partitions, one longer for the first members where they don't divide.

    Source: RangeAssignor.
    """
    assignment: Assignment = {member_id: {} for member_id in subscriptions}
    subscribers: dict[str, list[str]] = {}
    for member_id in member_order(subscriptions):
        for topic in subscriptions[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    for topic, member_ids in sorted(subscribers.items()):
        start = 0
        each, extra = divmod(partition_counts.get(topic, 0), len(member_ids))
        for rank, member_id in enumerate(member_ids):
            end = start + each + (rank < extra)
            if end > start:
                assignment[member_id][topic] = tuple(range(start, end))
            start = end
    return assignment
