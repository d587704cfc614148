"""What is decided about partitions from the outside: who leads, who holds them, where new ones go.

Pure: facts go in as values, the next `PartitionState` comes out, and the metadata's compare-and-set makes
it true. A decision looks at how things are and not at what has happened, so that a controller that takes
over in the middle of anything goes on without knowing what its predecessor did.
Source: org.apache.kafka.controller.ReplicationControlManager and PartitionChangeBuilder.
"""

from kohort.broker.controller.balance import balanced, imbalance_percentages, is_drained, preferred
from kohort.broker.controller.decisions import Change, decide
from kohort.broker.controller.election import settled
from kohort.broker.controller.facts import LiveBroker, LiveBrokers, TopicRules, live_brokers, topic_rules
from kohort.broker.controller.in_sync import min_in_sync, with_isr
from kohort.broker.controller.placement import NotEnoughBrokers, UsableBroker, place
from kohort.broker.controller.reassignment import ReassignmentRefused, begin, cancel
from kohort.broker.controller.requests import (
    ElectionKind,
    plan_elections,
    plan_reassignments,
)

__all__ = [
    "Change",
    "ElectionKind",
    "LiveBroker",
    "LiveBrokers",
    "NotEnoughBrokers",
    "ReassignmentRefused",
    "TopicRules",
    "UsableBroker",
    "balanced",
    "begin",
    "cancel",
    "decide",
    "imbalance_percentages",
    "is_drained",
    "live_brokers",
    "min_in_sync",
    "place",
    "plan_elections",
    "plan_reassignments",
    "preferred",
    "settled",
    "topic_rules",
    "with_isr",
]
