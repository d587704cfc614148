"""A broker's registration, while its answers from etcd are on their way."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from kohort.broker.metadata.etcd_layout import Keys
from kohort.broker.metadata.membership import Membership


class Client:
    """Renews a lease; meanwhile something happens."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None

    async def keep_alive(self, lease_id: int, seconds: float) -> None:
        self.meanwhile()


class Tenure:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def registered(self, broker_epoch: int, asked_ms: int) -> None:
        self.heard.append("registered")

    def renewed(self, asked_ms: int) -> None:
        self.heard.append("renewed")

    def lost(self) -> None:
        self.heard.append("lost")


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def tenure() -> Tenure:
    return Tenure()


@pytest.fixture
def membership(client: Client, tenure: Tenure) -> Membership:
    found = Membership(cast(Any, client), Keys("/kohort/"), ttl_ms=9_000, heartbeat_ms=1_000, tenure=tenure)
    found.epoch, found.lease_id = 7, 70
    return found


async def test_a_renewal_extends_the_lease_of_the_broker(membership: Membership, tenure: Tenure) -> None:
    await membership.renew()
    assert tenure.heard == ["renewed"]


async def test_a_renewal_after_a_lost_registration_does_not_count(
    membership: Membership, client: Client, tenure: Tenure
) -> None:
    client.meanwhile = membership.lost  # The watch has told that somebody removed the registration.
    await membership.renew()
    assert tenure.heard == ["lost"]


async def test_a_renewal_does_not_count_for_the_next_registration(
    membership: Membership, client: Client, tenure: Tenure
) -> None:
    def register_anew() -> None:
        membership.lost()
        membership.epoch, membership.lease_id = 8, 80

    client.meanwhile = register_anew
    await membership.renew()
    assert tenure.heard == ["lost"]
