"""A broker whose log has lost its end begins another life, while its registration says something else."""

from typing import Any, cast
from uuid import UUID

import trio
import trio.testing

from kohort.broker.cluster.member import ClusterMember
from kohort.broker.cluster.tenure import LeasedTenure
from kohort.broker.etcd.messages import Lease, Operation, Put, Transacted
from kohort.broker.metadata import BrokerState, Snapshot
from kohort.broker.metadata.etcd_layout import Keys, broker_state
from kohort.broker.metadata.membership import Membership, Unheeded

OLD, NEW = UUID(int=1), UUID(int=2)
BROKER = BrokerState(1, "localhost", 9092, incarnation_id=UUID(int=9), directories=(OLD,))


class Life:
    """A data folder whose id is another one after `renew`."""

    incarnation_id = UUID(int=9)
    former_directories = ()
    directory_id = OLD

    def renew(self) -> None:
        self.directory_id = NEW


class Store:
    """A store, and its membership, whose etcd answers a registration when a test says so."""

    is_registered = True

    def __init__(self) -> None:
        self.membership = self
        self.said: list[BrokerState] = []
        self.answers = trio.Event()

    def snapshot(self) -> Snapshot:
        return Snapshot(9, "c", 1, (), {}, {})

    def watch(self, watcher: object) -> None:
        """Tell nothing."""

    async def register(self, broker: BrokerState) -> None:
        self.said.append(broker)
        await self.answers.wait()

    async def begin_anew(self, broker: BrokerState) -> None:
        self.said.append(broker)


async def test_a_delayed_registration_does_not_restore_the_old_directory_id() -> None:
    store, life = Store(), Life()
    member = ClusterMember(
        cast("Any", store), LeasedTenure(1, 1_000, lambda: 0), cast("Any", None), cast("Any", life)
    )
    member.registration(BROKER)
    member._disk_fails = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member._restate, False)
        await trio.testing.wait_all_tasks_blocked()
        await member._begin_anew()
        store.answers.set()
    member._disk_fails = False
    await member._restate(False)
    assert [each.directories for each in store.said[1:]] == [(NEW,)] * 3
    assert [each.is_draining for each in store.said] == [True, False, True, False]


class Etcd:
    """An etcd that grants a lease when a test says so, and takes every registration."""

    def __init__(self) -> None:
        self.asked, self.grants = trio.Event(), trio.Event()
        self.puts: list[Operation] = []

    async def grant(self, ttl_seconds: int) -> Lease:
        self.asked.set()
        await self.grants.wait()
        return Lease(7, ttl_seconds)

    async def revoke(self, lease_id: int, *, seconds: float) -> None:
        """Revoke nothing that there is."""

    async def txn(self, compares: object, puts: list[Operation], looks: object) -> Transacted:
        self.puts += puts
        return Transacted(succeeded=True, revision=5, found=())


async def test_a_registration_with_a_late_lease_has_the_newest_directory_id() -> None:
    etcd, keys = Etcd(), Keys("c")
    membership = Membership(cast("Any", etcd), keys, ttl_ms=9_000, heartbeat_ms=10, tenure=Unheeded())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(membership.join, BROKER)
        await etcd.asked.wait()
        await membership.begin_anew(cast("Any", BrokerState(1, "localhost", 9092, directories=(NEW,))))
        etcd.grants.set()
    put = etcd.puts[0]
    assert isinstance(put, Put)
    assert put.value is not None
    assert broker_state(put.key, 1, 5, put.value).directories == (NEW,)
