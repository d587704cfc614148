"""Who is a broker of the cluster, and who only says so."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kohort.broker.cluster.known_brokers import KnownBrokers, client_id_of
from kohort.broker.metadata import BrokerState, Snapshot

OWN, OTHER, EPOCH, LISTENER = 1, 2, 40, 1
STORE = cast(
    Any,
    SimpleNamespace(
        snapshot=lambda: Snapshot(
            1,
            "c",
            OWN,
            brokers=tuple(
                BrokerState(each, "h", 1, epoch=EPOCH + each, incarnation_id=UUID(int=each))
                for each in (OWN, OTHER)
            ),
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
def test_a_broker_is_identified_by_listener_user_and_epoch(
    *, user: str | None, principal: str, listener: int, node_id: int, epoch: int, is_known: bool
) -> None:
    request = cast(
        Any,
        SimpleNamespace(connection=SimpleNamespace(listener=listener), principal=principal, client_id=None),
    )
    assert KnownBrokers(STORE, OWN, LISTENER, user).knows(request, node_id, epoch) is is_known


@pytest.mark.parametrize(
    ("user", "client_id", "listener", "is_known"),
    [
        (None, client_id_of(OTHER, UUID(int=OTHER)), LISTENER, True),
        (None, client_id_of(OTHER, UUID(int=OTHER)), 0, False),
        (None, client_id_of(OTHER, UUID(int=9)), LISTENER, False),
        (None, client_id_of(OWN, UUID(int=OWN)), LISTENER, False),
        (None, "broker-2", LISTENER, False),
        (None, "f\u00fcr alle", LISTENER, False),
        (None, None, LISTENER, False),
        ("broker", "whatever", LISTENER, True),
    ],
)
def test_a_broker_without_a_node_id_is_identified_by_user_or_client_id(
    user: str | None, client_id: str | None, listener: int, *, is_known: bool
) -> None:
    principal = "User:ANONYMOUS" if user is None else f"User:{user}"
    request = cast(
        Any,
        SimpleNamespace(
            connection=SimpleNamespace(listener=listener), principal=principal, client_id=client_id
        ),
    )
    assert KnownBrokers(STORE, OWN, LISTENER, user).knows(request, -1, -1) is is_known
