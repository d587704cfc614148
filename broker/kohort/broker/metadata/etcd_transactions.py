"""Transactions of etcd, each made or refused for certain, or not known: also where an answer was lost.

Whoever got no answer can't tell by looking: a member of etcd that stood still may carry the transaction out
later. So the same one is sent again, this time with a key that the first one compares too: whichever of the
two comes second does nothing. Where that is not answered either, nobody knows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID, uuid4

from kohort.broker.etcd.calls import Calls
from kohort.broker.etcd.errors import EtcdError, EtcdLeaseLost, EtcdUnavailable
from kohort.broker.etcd.messages import (
    Compare,
    Delete,
    KeyValue,
    Operation,
    Put,
    Range,
    Transacted,
    not_there,
)
from kohort.broker.metadata.etcd_layout import Keys
from kohort.broker.metadata.etcd_plan import Transaction
from kohort.broker.metadata.membership import Membership
from kohort.broker.metadata.store import BrokerFenced, ChangeUnknown, MetadataUnavailable
from kohort.storage import StorageError

Looked = Mapping[bytes, KeyValue | None]
"""Keys as etcd had them, None for one that is not there."""


class Refusal(NamedTuple):
    """A transaction is not made, and never will be: how the keys that it compares were at a revision."""

    looked: Looked
    revision: int


class _Sign(NamedTuple):
    """A key that a transaction gives a value, or removes (None); `since` is what had changed it last."""

    key: bytes
    value: bytes | None
    since: int


class Transactions:
    """Makes transactions as this broker, or as nobody where there is no registration."""

    def __init__(
        self, client: Calls, keys: Keys, membership: Membership, new_id: Callable[[], UUID] = uuid4
    ) -> None:
        self._client = client
        self._keys = keys
        self._membership = membership
        self._new_id = new_id

    async def make(self, transaction: Transaction, guards: Sequence[Compare]) -> Refusal | int:
        """Return the revision at which it was made, or why it never will be.

        `guards` say under which registrations this broker acts. Raises: BrokerFenced where one of them is
        gone; StorageError where it was not made either; ChangeUnknown.
        """
        settled = self._keys.settled(self._new_id())
        compares = [*guards, not_there(settled), *transaction.compares]
        looks: list[Operation] = [Range(each.key) for each in compares]
        done = await self.send(compares, transaction.operations, looks)
        if done is None:
            return await self._settle(transaction, guards, compares, settled)
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
        """Return how it ended, None where nobody knows. Raises: StorageError where it was not made.

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
        """Return if what was looked at first is as the guards say. Raises: BrokerFenced."""
        for guard, looked in zip(guards, done.found, strict=False):
            if not looked.items or looked.items[0].create_revision != guard.revision:
                self._guard_fell(guard)

    def _guard_fell(self, guard: Compare) -> None:
        if guard.key == self._keys.controller:
            raise BrokerFenced("another broker is the controller by now")
        if guard.revision == self._membership.epoch:  # It may have registered anew meanwhile.
            self._membership.lost()
        raise BrokerFenced("this broker's registration is gone")

    # -- answers that were lost ---------------------------------------------------------------------------

    async def _settle(
        self, transaction: Transaction, guards: Sequence[Compare], compares: Sequence[Compare], settled: bytes
    ) -> Refusal | int:
        """See to it that the transaction is made at most once, and return what `make` returns.

        What makes a key is not sent again, only ended: if somebody has removed that key meanwhile, it would
        be made twice. The key that settles it goes with this broker's lease, without which no guard holds.
        """
        signs = _signs_of(transaction)
        keys = list(dict.fromkeys([*(each.key for each in compares), signs[0].key]))
        settle = Put(settled, b"", self._membership.lease_id if guards else 0)
        looks: list[Operation] = [*(Range(key) for key in keys), settle]
        is_sent_again = all(each.revision for each in transaction.compares)
        try:
            done = await self.send(
                compares, [*transaction.operations, settle] if is_sent_again else looks, looks, again=True
            )
        except StorageError as error:  # The second was not made. The first may have been.
            raise ChangeUnknown(f"the answer to a change was lost: {error}") from error
        if done is None:
            raise ChangeUnknown("etcd does not answer; the change may have been made, or may be made yet")
        if done.succeeded and is_sent_again:
            return done.revision
        looked = _looked(keys, done)
        if await self._show(signs, looked):
            return done.revision
        self.check_guards(guards, done)
        others = {each.key: looked[each.key] for each in compares if each.key != settled}
        return Refusal(others, done.revision)

    async def _show(self, signs: Sequence[_Sign], looked: Looked) -> bool:
        """Return whether all keys are, or were, as the transaction makes them. Raises: ChangeUnknown.

        Somebody else may have made the same of one of them. A key that somebody else has removed is as good
        as removed.
        """
        first, *others = signs
        if first.value is None:
            return all(_is_gone(each, looked[each.key]) for each in signs)
        item = looked[first.key]
        try:
            while item is not None and item.mod_revision > first.since:
                if item.value == first.value and await self._were_made(others, item.mod_revision):
                    return True
                before = await self._client.range(Range(first.key, revision=item.mod_revision - 1))
                item = before.items[0] if before.items else None
        except EtcdError as error:
            raise ChangeUnknown(f"a change's answer was lost, and others came after it: {error}") from error
        return False

    async def _were_made(self, signs: Sequence[_Sign], revision: int) -> bool:
        """Return whether that very revision has left all keys as they are to be. Raises: EtcdError."""
        if not signs:
            return True
        done = await self._client.txn([], [Range(each.key, revision=revision) for each in signs], again=True)
        looked = _looked([each.key for each in signs], done)
        return all(_is_made(each, looked[each.key], revision) for each in signs)


def _signs_of(transaction: Transaction) -> list[_Sign]:
    """Return what shows whether a transaction was made: the one that shows most first.

    Keys that are removed were all compared.
    """
    compared = {each.key: each.revision for each in transaction.compares if each.target == "MOD"}
    signs = [
        _Sign(each.key, each.value if isinstance(each, Put) else None, compared.get(each.key, 0))
        for each in transaction.operations
        if isinstance(each, Put) or (isinstance(each, Delete) and not each.end)
    ]
    return sorted(signs, key=lambda sign: (sign.value is None, sign.key not in compared))


def _is_made(sign: _Sign, item: KeyValue | None, revision: int) -> bool:
    if item is None:
        return sign.value is None
    return item.mod_revision == revision and item.value == sign.value


def _is_gone(sign: _Sign, item: KeyValue | None) -> bool:
    return item is None or item.create_revision > sign.since


def _looked(keys: Sequence[bytes], done: Transacted) -> Looked:
    return {key: each.items[0] if each.items else None for key, each in zip(keys, done.found, strict=True)}
