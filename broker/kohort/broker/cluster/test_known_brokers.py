"""Who is a broker of the cluster, and who only says so."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kohort.broker.cluster.known_brokers import KnownBrokers
from kohort.broker.metadata import BrokerState, Snapshot

OWN, OTHER, EPOCH, LISTENER = 1, 2, 40, 1
STORE = cast(
    Any,
    SimpleNamespace(
        snapshot=lambda: Snapshot(
            1, "c", OWN, brokers=tuple(BrokerState(each, "h", 1, epoch=EPOCH + each) for each in (OWN, OTHER))
        )
    ),
)


@pytest.mark.parametrize(
    ("user", "principal", "listener", "node_id", "epoch", "is_known"),
    [
        ("broker", "User:broker", LISTENER, OTHER, EPOCH + OTHER, True),
        ("broker", "User:alice", LISTENER, OTHER, EPOCH + OTHER, False),
        ("broker", "User:broker", 0, OTHER, EPOCH + OTHER, False),
        ("broker", "User:broker", LISTENER, 7, EPOCH + OTHER, False),
        ("broker", "User:broker", LISTENER, OWN, EPOCH + OWN, False),
        (None, "User:CN=other", LISTENER, OTHER, EPOCH + OTHER, True),
        (None, "User:ANONYMOUS", LISTENER, OTHER, -1, False),
        (None, "User:ANONYMOUS", LISTENER, OTHER, EPOCH + OWN, False),
    ],
)
def test_a_broker_comes_by_its_listener_as_its_user_with_its_epoch(
    *, user: str | None, principal: str, listener: int, node_id: int, epoch: int, is_known: bool
) -> None:
    request = cast(Any, SimpleNamespace(connection=SimpleNamespace(listener=listener), principal=principal))
    assert KnownBrokers(STORE, OWN, LISTENER, user).knows(request, node_id, epoch) is is_known
