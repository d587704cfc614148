"""The metrics of replicas and of the controller, under the names that dashboards for Kafka know. Pure."""

from collections.abc import Iterator

from prometheus_client import Metric

from kohort.broker.http import families
from kohort.broker.http.metric_rows import one
from kohort.broker.http.replica_facts import ReplicaFacts
from kohort.broker.metadata.leadership_counters import LeadershipCounters


def replica_metrics(facts: ReplicaFacts, counters: LeadershipCounters) -> Iterator[Metric]:
    """Yield what Kafka's ReplicaManager and its controller tell."""
    yield one(families.LEADER_COUNT, facts.leaders)
    yield one(families.PARTITION_COUNT, facts.replicas)
    yield one(families.UNDER_REPLICATED, facts.under_replicated)
    yield one(families.UNDER_MIN_ISR, facts.under_min_isr)
    yield one(families.AT_MIN_ISR, facts.at_min_isr)
    yield one(families.REASSIGNING, facts.reassigning)
    yield one(families.ISR_SHRINKS, counters.isr_shrinks)
    yield one(families.ISR_EXPANDS, counters.isr_expands)
    yield one(families.ACTIVE_CONTROLLERS, int(facts.is_controller))
    yield one(families.ACTIVE_BROKERS, facts.brokers)
    yield one(families.GLOBAL_TOPICS, facts.topics)
    yield one(families.GLOBAL_PARTITIONS, facts.partitions)
    yield one(families.OFFLINE_PARTITIONS, facts.offline)
    yield one(families.PREFERRED_IMBALANCE, facts.led_by_others)
    yield one(families.LEADER_ELECTIONS, counters.elections)
    yield one(families.UNCLEAN_ELECTIONS, counters.unclean_elections)
