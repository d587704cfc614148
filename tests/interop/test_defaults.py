"""A broker and three clients with nothing but their defaults."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import CLIENTS, ConsumerOptions, Outgoing, Place
from tests.interop.members import Member, wait_until_shared
from tests.interop.waiting import wait_until


@pytest.fixture(scope="module")
def plain_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("plain"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def test_three_clients_work_together_with_default_settings(plain_broker: BrokerProcess) -> None:
    topic = f"plain-{uuid.uuid4().hex[:8]}"
    for client in CLIENTS.values():  # The first one has the broker create the topic.
        client.produce(plain_broker.bootstrap, topic, [Outgoing(client.name.encode())])
    options = ConsumerOptions(group="plain", topics=[topic])
    members = [Member(client, plain_broker.bootstrap, options) for client in CLIENTS.values()]
    try:
        place = Place(topic, 0)
        wait_until(lambda: sum(len(each.assignment) for each in members) == 1, "one owner of one partition")
        wait_until(lambda: sum(len(each.records) for each in members) >= 3, "every record is read")
        values = sorted(record.value or b"" for each in members for record in each.records)
        assert values == sorted(name.encode() for name in CLIENTS)
        owner = next(each for each in members if each.assignment)
        others = [each for each in members if each is not owner]
        owner.close()
        wait_until(lambda: sum(len(each.assignment) for each in others) == 1, "another one owns it")
        heir = next(each for each in others if each.assignment)
        assert heir.call(lambda consumer: consumer.committed(place)) == 3, "closing has committed"
        others.remove(heir)
        others[0].close()
        wait_until_shared([heir], [place])
    finally:
        for member in members:
            member.close()
