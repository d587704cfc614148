"""Transactions of etcd, each made or refused for certain, or not known: also where an answer was lost.

Without an answer the result cannot be looked up: a paused member of etcd may execute the transaction
later. So the same one is sent again, this time with a key that the first one compares too: the later of the
two does nothing. Each transaction writes its own id under a key of this broker, so that a value
of another broker is not taken for its own. Without any answer the result is unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import NamedTuple
from uuid import UUID, uuid4

from kohort.broker.etcd.calls import Calls
from kohort.broker.etcd.errors import EtcdError, EtcdLeaseLost, EtcdUnavailable
from kohort.broker.etcd.messages import (
    Compare,
    KeyValue,
    Operation,
    Put,
    Range,
    Transacted,
    not_there,
)
from kohort.broker.metadata.etcd_layout import Keys
from kohort.broker.metadata.etcd_plan import Transaction
from kohort.broker.metadata.membership import NO_EPOCH, Membership
from kohort.broker.metadata.store import BrokerFenced, ChangeUnknown, MetadataUnavailable
from kohort.storage import StorageError

Looked = Mapping[bytes, KeyValue | None]
"""Keys as read from etcd, None for a missing one."""


class Refusal(NamedTuple):
    """A transaction is not made, and never will be: how the keys that it compares were at a revision."""

    looked: Looked
    revision: int


class Transactions:
    """Makes transactions as this broker, or without a registration."""

    def __init__(
        self, client: Calls, keys: Keys, membership: Membership, new_id: Callable[[], UUID] = uuid4
    ) -> None:
        self._client = client
        self._keys = keys
        self._membership = membership
        self._new_id = new_id
        self._nobody = new_id()
        self._epoch = NO_EPOCH
        self._in_flight: set[int] = set()
        self._unknown: set[int] = set()  # Of changes that may be made yet, under the registration of now.

    async def make(self, transaction: Transaction, guards: Sequence[Compare]) -> Refusal | int:
        """Return the revision at which it was made, or why it never will be.

        `guards` say under which registrations this broker acts. Raises: BrokerFenced where one of them is
        gone; StorageError where it was not made either; ChangeUnknown.
        """
        owner = self._nobody if self._membership.node_id is None else self._membership.node_id
        slot = self._take_slot()
        self._unknown.add(slot)  # Also where the caller is cancelled.
        try:
            made = await self._make(transaction, guards, self._keys.change(owner, slot))
        except StorageError:
            self._unknown.discard(slot)
            raise
        else:
            self._unknown.discard(slot)
            return made
        finally:
            self._in_flight.discard(slot)

    def _take_slot(self) -> int:
        """Return the number of a key that no change has that may be made yet.

        After a new registration no change requested under the previous one is made any more.
        """
        if self._epoch != self._membership.epoch:
            self._epoch = self._membership.epoch
            self._unknown.clear()
        slot = next(each for each in count() if each not in self._in_flight and each not in self._unknown)
        self._in_flight.add(slot)
        return slot

    async def _make(
        self, transaction: Transaction, guards: Sequence[Compare], mark_key: bytes
    ) -> Refusal | int:
        change_id = self._new_id()
        mark = Put(mark_key, str(change_id).encode())
        settled = self._keys.settled(change_id)
        compares = [*guards, not_there(settled), *transaction.compares]
        looks: list[Operation] = [Range(each.key) for each in compares]
        done = await self.send(compares, [*transaction.operations, mark], looks)
        if done is None:
            return await self._settle(transaction, guards, compares, mark, settled)
        if done.succeeded:
            return done.revision
        self.check_guards(guards, done)
        return Refusal(_looked([each.key for each in compares], done), done.revision)

    async def send(
        self,
        compares: Sequence[Compare],
        success: Sequence[Operation],
        failure: Sequence[Operation] = (),
        *,
        again: bool = False,
    ) -> Transacted | None:
        """Return the result, None if unknown. Raises: StorageError if it was not made.

        With `again` it may be carried out twice.
        """
        try:
            return await self._client.txn(compares, success, failure, again=again)
        except EtcdUnavailable as error:
            if error.maybe_done:
                return None
            raise MetadataUnavailable(f"etcd can't be reached: {error}") from error
        except EtcdLeaseLost as error:
            raise BrokerFenced("this broker's lease is gone") from error
        except EtcdError as error:
            raise StorageError(f"etcd refuses the change: {error}") from error

    def check_guards(self, guards: Sequence[Compare], done: Transacted) -> None:
        """Return if the values read first match the guards. Raises: BrokerFenced."""
        for guard, looked in zip(guards, done.found, strict=False):
            if not looked.items or looked.items[0].create_revision != guard.revision:
                self._guard_fell(guard)

    def _guard_fell(self, guard: Compare) -> None:
        if guard.key == self._keys.controller:
            raise BrokerFenced("another broker is the controller by now")
        if guard.revision == self._membership.epoch:  # It may have registered again meanwhile.
            self._membership.lost()
        raise BrokerFenced("this broker's registration is gone")

    # -- answers that were lost ---------------------------------------------------------------------------

    async def _settle(
        self,
        transaction: Transaction,
        guards: Sequence[Compare],
        compares: Sequence[Compare],
        mark: Put,
        settled: bytes,
    ) -> Refusal | int:
        """See to it that the transaction is made at most once, and return what `make` returns.

        What makes a key is not sent again, only ended: if somebody has removed that key meanwhile, it would
        be made twice. The key that settles it goes with this broker's lease, without which no guard holds.
        """
        keys = [*(each.key for each in compares), mark.key]
        settle = Put(settled, b"", self._membership.lease_id if guards else 0)
        looks: list[Operation] = [*(Range(key) for key in keys), settle]
        is_sent_again = all(each.revision for each in transaction.compares)
        again = [*transaction.operations, mark, settle] if is_sent_again else looks
        try:
            done = await self.send(compares, again, looks, again=True)
        except StorageError as error:  # The second was not made. The first may have been.
            raise ChangeUnknown(f"the answer to a change was lost: {error}") from error
        if done is None:
            raise ChangeUnknown("etcd does not answer; the change may have been made, or may be made yet")
        if done.succeeded and is_sent_again:
            return done.revision
        looked = _looked(keys, done)
        left = looked.pop(mark.key)
        if left is not None and left.value == mark.value:
            return left.mod_revision
        try:
            self.check_guards(guards, done)
        except BrokerFenced as error:  # The mark of a change that was made goes with the registration.
            raise ChangeUnknown(f"the answer to a change was lost: {error}") from error
        del looked[settled]
        return Refusal(looked, done.revision)


def _looked(keys: Sequence[bytes], done: Transacted) -> dict[bytes, KeyValue | None]:
    return {key: each.items[0] if each.items else None for key, each in zip(keys, done.found, strict=True)}
