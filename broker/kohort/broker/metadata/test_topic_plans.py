"""Partitions that clients assign to brokers themselves."""

from uuid import UUID

import pytest

from kohort.broker.config import BrokerConfig
from kohort.broker.metadata.snapshot import BrokerState, Snapshot, TopicState
from kohort.broker.metadata.topic_names import MetricNames
from kohort.broker.metadata.topic_plans import NewTopic, partitions_of, plan_partitions, plan_topic
from kohort.protocol.errors import ApiError, ErrorCode

CLUSTER = Snapshot(1, "c", 1, tuple(BrokerState(each, "h", each) for each in (1, 2, 3)))


def new(*replicas: tuple[int, ...]) -> TopicState:
    topic = NewTopic("t", assignments=tuple(enumerate(replicas)))
    return plan_topic(CLUSTER, topic, BrokerConfig(), MetricNames({}))


def test_partitions_have_the_requested_replicas_and_the_first_leads() -> None:
    found = new((2, 1), (3, 2))
    assert [(each.leader, each.replicas, each.isr) for each in found.partitions] == [
        (2, (2, 1), (2, 1)),
        (3, (3, 2), (3, 2)),
    ]


@pytest.mark.parametrize("replicas", [((1, 2), (3,)), ((1,), (2, 3)), ((1, 2), (2, 2)), ((1, 2), (2, 7))])
def test_partitions_of_a_topic_have_as_many_replicas_each(replicas: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ApiError) as refused:
        new(*replicas)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_added_partitions_have_the_requested_replicas() -> None:
    topic = TopicState("t", UUID(int=1), partitions_of([(1, 2)]))
    assert plan_partitions(topic, CLUSTER, 2, [(2, 3)]).partitions[1].replicas == (2, 3)
    with pytest.raises(ApiError) as refused:
        plan_partitions(topic, CLUSTER, 2, [(2,)])
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
