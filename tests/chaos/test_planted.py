"""The checker sees, through real clients, what was lost, doubled and set back on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.clients import PARTITIONS, TOPIC, ConfluentMember, Member, Writer
from tests.chaos.history import History, Log
from tests.chaos.test_rounds import all_have_committed, log_of, look_up
from tests.cluster.broker_cluster import PATIENCE_SECONDS
from tests.cluster.test_replication import until
from tests.interop.broker_process import BrokerProcess

RECORDS_MIN = 100


class Traffic:
    """What a writer and a group have done on one broker, and what was heard of it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.bootstrap = broker.bootstrap
        self.history = History()
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (made,) = self.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values()
        made.result(PATIENCE_SECONDS)
        self.members: list[Member] = [ConfluentMember(self.bootstrap, self.history)]
        writer = Writer(self.bootstrap, self.history)
        for each in (writer, *self.members):
            each.start()
        trio.run(until, partial(all_have_committed, self.members))
        trio.run(until, self._has_enough)
        for each in (writer, *self.members):
            each.stop()
        self.history.assignments.clear()

    async def _has_enough(self) -> bool:
        return len(self.history.acknowledged) > RECORDS_MIN

    def violations(self) -> list[str]:
        """Return what the checker finds."""
        look_up(self.bootstrap, self.history, self.members)
        logs: dict[int, Log] = {each: log_of(self.bootstrap, each) for each in range(PARTITIONS)}
        return self.history.violations(logs)

    def lose(self) -> None:
        """Remove records that were acknowledged."""
        (asked,) = self.admin.delete_records([TopicPartition(TOPIC, 0, 3)]).values()
        asked.result(PATIENCE_SECONDS)

    def double(self) -> None:
        """Write a record once more, as a producer does that nobody numbers."""
        value = next(iter(self.history.acknowledged))
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(TOPIC, value, partition=1)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def set_back(self) -> None:
        """Let a group's commit be an older one."""
        older = ConsumerGroupTopicPartitions(self.members[0].name, [TopicPartition(TOPIC, 2, 1)])
        (asked,) = self.admin.alter_consumer_group_offsets([older]).values()
        asked.result(PATIENCE_SECONDS)


@pytest.fixture
def traffic(tmp_path: Path) -> Iterator[Traffic]:
    """Records and commits of a broker of its own."""
    broker = BrokerProcess(tmp_path, "group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=500")
    broker.start()
    try:
        yield Traffic(broker)
    finally:
        broker.kill()


def test_without_a_planted_fault_nothing_is_found(traffic: Traffic) -> None:
    assert traffic.violations() == []


PLANTED: dict[str, Callable[[Traffic], None]] = {
    "lost or moved": Traffic.lose,
    "doubled": Traffic.double,
    "a committed offset went back": Traffic.set_back,
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_fault_is_found(traffic: Traffic, kind: str) -> None:
    PLANTED[kind](traffic)
    found = traffic.violations()
    assert any(each.startswith(kind) for each in found), found
    assert {each.split(":")[0] for each in found} <= {kind, "read and gone"}
