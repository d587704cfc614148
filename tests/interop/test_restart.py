"""The broker goes away and comes back while a producer and a group are at work."""

from __future__ import annotations

import signal

import pytest

from tests.interop.broker_process import BrokerProcess
from tests.interop.clients import Client, Outgoing
from tests.interop.conftest import Join, MakeTopic
from tests.interop.members import wait_until_shared
from tests.interop.test_groups import produce_numbers, values_of
from tests.interop.waiting import wait_until

SESSION_TIMEOUT_MS = 8_000  # Longer than the broker is away: nobody is to be missed.
SIGNALS = [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize("how", SIGNALS, ids=lambda how: how.name)
@pytest.mark.requirement("R20")
def test_a_group_reads_on_after_a_restart(
    client: Client, own_broker: BrokerProcess, make_topic: MakeTopic, join: Join, how: signal.Signals
) -> None:
    places = make_topic(4)
    topic = places[0].topic
    members = [
        join(client, topic, auto_commit=False, session_timeout_ms=SESSION_TIMEOUT_MS) for _ in range(2)
    ]
    wait_until_shared(members, places)
    before = produce_numbers(client, own_broker.bootstrap, places)
    wait_until(lambda: len(values_of(*members)) == len(before), "what came before is read")
    for member in members:
        member.call(lambda consumer: consumer.commit())
    own_broker.restart(how)
    after = produce_numbers(client, own_broker.bootstrap, places, first=len(before))
    wait_until(lambda: after <= set(values_of(*members)), "what came after is read")
    assert sorted(values_of(*members)) == sorted(before | after), "nothing was lost, nothing read again"
    for member in members:
        owned = sorted(member.assignment)
        committed = [member.call(lambda each, place=place: each.committed(place)) for place in owned]  # type: ignore[misc]
        assert committed == [len(before) // len(places)] * len(owned), "the commits are still there"


def test_a_stopped_broker_ends_well(own_broker: BrokerProcess, make_topic: MakeTopic, client: Client) -> None:
    places = make_topic(1)
    client.produce(own_broker.bootstrap, places[0].topic, [Outgoing(b"kept")])
    assert own_broker.stop() == 0
    own_broker.start()
