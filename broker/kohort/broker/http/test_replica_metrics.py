"""Replicas and leaders, counted for one broker and for the controller."""

from uuid import UUID

from kohort.broker.http.replica_facts import ReplicaFacts, replica_facts
from kohort.broker.http.replica_metrics import replica_metrics
from kohort.broker.metadata import BrokerState, PartitionState, Snapshot, TopicState
from kohort.broker.metadata.leadership_counters import LeadershipCounters
from kohort.broker.metadata.snapshot import topics_by_id

WHOLE = PartitionState(0, 1, 0, (1, 2, 3), (1, 2, 3))
BEHIND = PartitionState(1, 1, 0, (2, 1, 3), (1, 2))
FAR_BEHIND = PartitionState(2, 1, 0, (1, 2, 3), (1,))
MOVING = PartitionState(3, 1, 0, (1, 2, 3), (1, 2), adding=(3,))
DEAD = PartitionState(4, 3, 0, (3,), (3,))


def snapshot(controller_id: int) -> Snapshot:
    topic = TopicState(
        "t", UUID(int=1), (WHOLE, BEHIND, FAR_BEHIND, MOVING, DEAD), {"min.insync.replicas": "2"}
    )
    brokers = (BrokerState(1, "h", 1), BrokerState(2, "h", 2))
    return Snapshot(1, "c", controller_id, brokers, {"t": topic}, topics_by_id([topic]))


def test_a_broker_tells_of_what_it_leads_and_holds() -> None:
    found = replica_facts(snapshot(2), 1, 1)
    assert found == ReplicaFacts(
        leaders=4, replicas=4, under_replicated=3, under_min_isr=1, at_min_isr=2, reassigning=1
    )
    assert replica_facts(snapshot(1), 2, 1) == ReplicaFacts(replicas=4)


def test_the_controller_tells_of_all() -> None:
    found = replica_facts(snapshot(1), 1, 1)
    assert found.is_controller
    assert (found.topics, found.partitions, found.offline, found.led_by_others, found.brokers) == (
        1,
        5,
        1,
        1,
        2,
    )


def test_metrics_have_the_names_that_dashboards_know() -> None:
    counters = LeadershipCounters()
    counters.isr_shrinks = 7
    told = {
        metric.samples[0].name: metric.samples[0].value
        for metric in replica_metrics(replica_facts(snapshot(1), 1, 1), counters)
    }
    assert told["kafka_server_replicamanager_underreplicatedpartitions"] == 3
    assert told["kafka_server_replicamanager_isrshrinks_total"] == 7
    assert told["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert told["kafka_controller_kafkacontroller_offlinepartitionscount"] == 1
