"""The decisions of the controller about partitions: leaders, replicas, and placement.

Pure: facts go in as values, the next `PartitionState` comes out, and the metadata's compare-and-set applies
it. A decision depends on the current state and not on past events, so that a controller that takes
over at any time continues without its predecessor's knowledge.
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
