"""How a group's leader hands the partitions out: pure functions, open to the user's own.

def assign_all_to_one(subscriptions, partition_counts): ...
Consumer(..., partition_assignment_strategy=Assignor("all-to-one", assign_all_to_one))
"""

from kohort.client.assignors.cooperative import assign_cooperative_sticky, cooperative_user_data
from kohort.client.assignors.ranges import assign_range
from kohort.client.assignors.roundrobin import assign_roundrobin
from kohort.client.assignors.sticky import assign_sticky, sticky_user_data
from kohort.client.assignors.subscription import (
    Assign,
    Assignment,
    Assignor,
    Owned,
    Subscription,
    TopicCounts,
    only_topics,
    racks_of,
)

RANGE = Assignor("range", assign_range)
ROUND_ROBIN = Assignor("roundrobin", assign_roundrobin)
STICKY = Assignor("sticky", assign_sticky, user_data=sticky_user_data)
COOPERATIVE_STICKY = Assignor(
    "cooperative-sticky", assign_cooperative_sticky, cooperative=True, user_data=cooperative_user_data
)

ASSIGNORS = {each.name: each for each in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}
"""Kafka's own assignors by the name that members vote with."""

__all__ = [
    "ASSIGNORS",
    "COOPERATIVE_STICKY",
    "RANGE",
    "ROUND_ROBIN",
    "STICKY",
    "Assign",
    "Assignment",
    "Assignor",
    "Owned",
    "Subscription",
    "TopicCounts",
    "assign_cooperative_sticky",
    "assign_range",
    "assign_roundrobin",
    "assign_sticky",
    "only_topics",
    "racks_of",
]
