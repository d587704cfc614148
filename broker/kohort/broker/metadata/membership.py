"""A broker's registration: a key under a lease, kept while it runs, and the check whether it still holds.

The broker epoch is the revision that created the key. A lease shows who is probably alive, never more:
every change compares the epoch, and a broker without a renewal for most of the lease's time stops
by itself. Source: Kafka's BrokerLifecycleManager; KIP-631.
"""

import time
from typing import Protocol

import structlog
import trio

from kohort.broker.etcd.calls import Calls
from kohort.broker.etcd.errors import EtcdError, EtcdLeaseLost, EtcdUnavailable
from kohort.broker.etcd.messages import (
    Compare,
    KeyValue,
    Put,
    Range,
    Transacted,
    created_at,
    not_there,
    unchanged_since,
)
from kohort.broker.metadata.etcd_layout import Keys, broker_state, broker_value
from kohort.broker.metadata.snapshot import BrokerState, Snapshot
from kohort.broker.metadata.store import BrokerFenced

NO_EPOCH = -1
TAKEN_POLL_SECONDS = 0.5

log = structlog.get_logger("kohort.cluster")


def boot_time_ms() -> int:
    """Return the time since the machine's start, also that in which process or machine slept."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


class Tenure(Protocol):
    """Decides, from these events, whether this broker may act."""

    def registered(self, broker_epoch: int, asked_ms: int) -> None:
        """Apply a new registration; the lease counts from `asked_ms` of `boot_time_ms`."""
        ...

    def renewed(self, asked_ms: int) -> None:
        """Hear that the renewal asked for at that time was granted."""
        ...

    def lost(self) -> None:
        """Hear that the registration is gone."""
        ...


class Unheeded:
    """Ignores the events: for a store that is only read, or written by a test."""

    def registered(self, broker_epoch: int, asked_ms: int) -> None:
        """Do nothing."""

    def renewed(self, asked_ms: int) -> None:
        """Do nothing."""

    def lost(self) -> None:
        """Do nothing."""


class Membership:
    """This broker's registration."""

    def __init__(self, client: Calls, keys: Keys, *, ttl_ms: int, heartbeat_ms: int, tenure: Tenure) -> None:
        self._client = client
        self._keys = keys
        self._ttl_ms = ttl_ms
        self._heartbeat_seconds = heartbeat_ms / 1000
        self._tenure = tenure
        self._broker: BrokerState | None = None
        self.epoch = NO_EPOCH
        self.lease_id = 0

    @property
    def is_registered(self) -> bool:
        """Whether this broker has a registration, as far as it knows."""
        return self.epoch != NO_EPOCH

    @property
    def node_id(self) -> int | None:
        """This broker's number; None where it has not begun to register."""
        return None if self._broker is None else self._broker.node_id

    def compare(self) -> list[Compare]:
        """Return what every change by this broker compares. Raises: BrokerFenced without a registration."""
        if self._broker is None:
            return []  # It only looks on, or has not begun.
        if self.epoch == NO_EPOCH:
            raise BrokerFenced("this broker is not registered any more: its lease is gone")
        return [created_at(self._keys.broker(self._broker.node_id), self.epoch)]

    async def join(self, broker: BrokerState) -> int:
        """Register, and return the revision of the registration; a second call changes its content.

        A process with the same data folder was this one's predecessor, and is dead: the folder is
        locked. For any other with this node id the call waits up to the lifetime of a lease.
        Raises: BrokerFenced where the node id stays another's; EtcdError.
        """
        self._broker = broker
        if self.epoch != NO_EPOCH:
            return await self._restate(broker)
        asked_ms = boot_time_ms()
        lease = await self._client.grant(-(-self._ttl_ms // 1000))
        self.lease_id = lease.id
        key = self._keys.broker(broker.node_id)
        deadline = trio.current_time() + lease.ttl_seconds * 2
        while True:
            broker = self._broker  # Another one if it has registered again meanwhile.
            puts = [Put(key, broker_value(broker), lease.id)]
            if broker.incarnation_id is not None:
                puts.append(Put(self._keys.life(broker.node_id), str(broker.incarnation_id).encode()))
            done = await self._put_under(lease.id, key, puts)
            if done.succeeded:
                break
            await self._make_room(broker, done.found[0].items, deadline)
            await self._client.keep_alive(lease.id)
        self.epoch = done.revision
        self._tenure.registered(self.epoch, asked_ms)
        log.info("registered", node_id=broker.node_id, broker_epoch=self.epoch, ttl_seconds=lease.ttl_seconds)
        return self.epoch

    async def _put_under(self, lease_id: int, key: bytes, puts: list[Put]) -> Transacted:
        """Return how the registration ended; without an answer its lease ends, and it is not made later.

        Raises: EtcdError.
        """
        try:
            return await self._client.txn([not_there(key)], puts, [Range(key)])
        except EtcdUnavailable as error:
            if error.maybe_done:
                await self._end_lease(lease_id)
            raise

    async def _end_lease(self, lease_id: int) -> None:
        try:
            await self._client.revoke(lease_id, seconds=max(self._heartbeat_seconds, 1))
        except EtcdError as error:  # It expires by itself, as nobody renews it.
            log.warning("the lease could not be given back", error=str(error))

    async def _make_room(self, broker: BrokerState, found: tuple[KeyValue, ...], deadline: float) -> None:
        """Remove the registration of this folder's last process, or wait for another's end."""
        if not found:
            return
        other = broker_state(found[0].key, broker.node_id, found[0].create_revision, found[0].value)
        if set(other.directories) & {*broker.directories, *broker.former_directories}:
            await self._client.revoke(found[0].lease)  # With all its keys.
        elif trio.current_time() > deadline:
            raise BrokerFenced(
                f"node id {broker.node_id} is in use by another broker at {other.host}:{other.port}: "
                "give each its own with --node-id"
            )
        else:
            await trio.sleep(TAKEN_POLL_SECONDS)

    async def _restate(self, broker: BrokerState) -> int:
        """Return the revision at which the registration says so.

        It is written even if the content is the same, and compares the revision just read: a late earlier
        call, whose answer was lost, cannot overwrite it. Raises: BrokerFenced, EtcdError.
        """
        key, epoch = self._keys.broker(broker.node_id), self.epoch
        put = Put(key, broker_value(broker), self.lease_id)
        while True:
            items = (await self._client.range(Range(key))).items
            if not items or items[0].create_revision != epoch:
                if self.epoch == epoch:
                    self.lost()
                raise BrokerFenced("another process has registered under this broker's node id")
            done = await self._client.txn([unchanged_since(key, items[0].mod_revision)], [put])
            if done.succeeded:
                return done.revision

    async def begin_anew(self, broker: BrokerState) -> None:
        """Give the registration back: the next check of the lease registers again, with a new epoch."""
        self._broker = broker
        lease_id = self.lease_id
        self.lost()
        await self._end_lease(lease_id)  # If that fails, it is taken over with the folder's former id.

    # -- staying ----------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Renew the lease until cancelled; register again if it was lost."""
        while True:
            await trio.sleep(self._heartbeat_seconds)
            try:
                await self.renew()
            except EtcdLeaseLost:
                log.warning("the lease is gone", broker_epoch=self.epoch)
                self.lost()
            except EtcdError as error:
                log.warning("the lease could not be renewed", error=str(error))
            if self.epoch == NO_EPOCH:
                await self._join_again()

    async def renew(self) -> None:
        """Renew the lease once. Raises: EtcdError.

        The answer counts for the registration for which it was asked: that may be gone by now, while etcd has
        the lease for some time yet.
        """
        asked_ms, epoch = boot_time_ms(), self.epoch
        await self._client.keep_alive(self.lease_id, seconds=max(self._heartbeat_seconds, 0.5))
        if self.epoch == epoch:
            self._tenure.renewed(asked_ms)

    def seen(self, snapshot: Snapshot) -> None:
        """Check whether the watch still shows the registration."""
        if self.epoch != NO_EPOCH and self._broker is not None and snapshot.version >= self.epoch:
            here = snapshot.broker(self._broker.node_id)
            if here is None or here.epoch != self.epoch:
                log.error("the registration of this broker is gone", broker_epoch=self.epoch)
                self.lost()

    def lost(self) -> None:
        """Note that the registration is gone."""
        if self.epoch != NO_EPOCH:
            self.epoch = NO_EPOCH
            self._tenure.lost()

    async def _join_again(self) -> None:
        assert self._broker is not None
        while self.epoch == NO_EPOCH:
            try:
                await self.join(self._broker)
            except (EtcdError, BrokerFenced) as error:
                log.error("cannot register again", error=str(error))
                await trio.sleep(self._heartbeat_seconds)

    async def leave(self) -> None:
        """End the registration; where etcd can't be reached, the lease ends it later."""
        if self.lease_id:
            self.lost()
            try:
                await self._client.revoke(self.lease_id, seconds=1)
            except EtcdError as error:
                log.warning("the lease could not be given back", error=str(error))
