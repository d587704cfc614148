"""The metadata of a cluster in etcd: one watch keeps the snapshot, one transaction makes each change.

A change returns when the watch has reported it: its partitions exist then, and reports
never come out of order.
"""

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import structlog
import trio

from kohort.broker.etcd.calls import Calls
from kohort.broker.etcd.errors import EtcdCompacted, EtcdError, EtcdRejected, EtcdUnavailable
from kohort.broker.etcd.messages import (
    Compare,
    Delete,
    Found,
    KeyValue,
    Put,
    Range,
    Watched,
    created_at,
    not_there,
    prefix_end,
    unchanged_since,
)
from kohort.broker.etcd.watching import Watch
from kohort.broker.metadata.changes import changes_of, rebased
from kohort.broker.metadata.etcd_image import EtcdImage
from kohort.broker.metadata.etcd_layout import FORMAT, ControllerValue, Keys, encoded
from kohort.broker.metadata.etcd_plan import Planner, TooManyChanges, Transaction, with_directories
from kohort.broker.metadata.etcd_transactions import Refusal, Transactions
from kohort.broker.metadata.membership import Membership, Tenure, Unheeded
from kohort.broker.metadata.snapshot import BrokerState, Mutation, Snapshot
from kohort.broker.metadata.store import (
    PRODUCER_ID_BLOCK,
    ChangeUnknown,
    MetadataConflict,
    MetadataUnavailable,
    Watcher,
)
from kohort.broker.metadata.watchers import Watchers
from kohort.storage import StorageError

TOLD_SECONDS_MAX = 10.0
"""How long the watch may take to report a change that was made."""
RELOAD_SECONDS = 1.0
NO_BROKERS: Mapping[int, int] = {}
SESSION_TIMEOUT_MS = 9_000
HEARTBEAT_MS = 2_000

log = structlog.get_logger("kohort.metadata")


class EtcdMetadataStore:
    """A `MetadataStore` shared by several brokers. Opened by `connect`; `follow` must run from then on."""

    def __init__(
        self,
        client: Calls,
        keys: Keys,
        image: EtcdImage,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
        tenure: Tenure | None = None,
    ) -> None:
        self._client = client
        self._keys = keys
        self._image = image
        self._snapshot = image.snapshot
        self._watchers = Watchers()
        self._more = trio.Event()
        self.membership = Membership(
            client, keys, ttl_ms=session_timeout_ms, heartbeat_ms=heartbeat_ms, tenure=tenure or Unheeded()
        )
        self._watchers.add(lambda _before, after: self.membership.seen(after))
        self._transactions = Transactions(client, keys, self.membership)

    @classmethod
    async def connect(
        cls,
        client: Calls,
        name: str,
        cluster_id: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
        tenure: Tenure | None = None,
    ) -> "EtcdMetadataStore":
        """Return the store of the cluster with this name; the first broker gives it the cluster id.

        Raises: StorageError where etcd can't be reached, or has what kohort can't read.
        """
        keys = Keys(name)
        try:
            await client.txn(
                [not_there(keys.cluster_id)],
                [Put(keys.cluster_id, cluster_id.encode()), Put(keys.format, FORMAT)],
            )
        except EtcdUnavailable as error:
            if not error.maybe_done:
                raise MetadataUnavailable(f"etcd can't be reached: {error}") from error
        except EtcdError as error:
            raise StorageError(f"etcd refuses: {error}") from error
        image = await _read(client, keys)
        if not image.snapshot.cluster_id:
            raise MetadataUnavailable("etcd can't be reached: nobody knows whether it has the cluster's id")
        return cls(
            client,
            keys,
            image,
            session_timeout_ms=session_timeout_ms,
            heartbeat_ms=heartbeat_ms,
            tenure=tenure,
        )

    # -- looking ----------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the newest metadata that the watch has reported."""
        return self._snapshot

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` at each change from now on; return the function that ends it."""
        return self._watchers.add(watcher)

    async def follow(self) -> None:
        """Keep the snapshot equal to etcd, until cancelled; unreadable values are tried again and again."""
        while True:
            watch = Watch(self._client, self._keys.prefix, self._keys.end, self._snapshot.version + 1)
            try:
                await watch.run(self._take_watched)
            except EtcdCompacted:
                log.warning("the watch is behind a compaction; the metadata are read again")
            except (EtcdRejected, StorageError) as error:
                log.error("the metadata in etcd can't be followed", error=str(error))
                await trio.sleep(RELOAD_SECONDS)
            await self._reload()

    async def _reload(self) -> None:
        while True:
            try:
                image = await _read(self._client, self._keys)
                self._check_cluster(image.snapshot)
            except StorageError as error:
                log.error("the metadata can't be read from etcd", error=str(error))
                await trio.sleep(RELOAD_SECONDS)
            else:
                self._image = image
                self._become(image.succeed(self._snapshot))
                return

    def _take_watched(self, watched: Watched) -> None:
        after = self._image.apply(watched.changes, watched.revision)
        self._check_cluster(after)
        self._become(after)

    def _check_cluster(self, after: Snapshot) -> None:
        """Return if etcd still has this cluster. Raises: StorageError.

        Where it has none, or another one, nothing is known of the topics whose logs are here.
        """
        known = self._snapshot.cluster_id
        if after.cluster_id != known:
            found = f"cluster {after.cluster_id}" if after.cluster_id else "no cluster"
            raise StorageError(
                f"etcd has {found} under {self._keys.prefix.decode()} where cluster {known} was: "
                "restore its backup, or restart every broker to begin without topics"
            )

    def _become(self, after: Snapshot) -> None:
        before, self._snapshot = self._snapshot, after
        self._watchers.changed(before, after)
        self._more.set()
        self._more = trio.Event()

    async def until(self, holds: Callable[[Snapshot], bool]) -> Snapshot:
        """Return the first snapshot, from this one on, for which that holds. Raises: MetadataUnavailable."""
        with trio.move_on_after(TOLD_SECONDS_MAX):
            while not holds(self._snapshot):
                await self._more.wait()
            return self._snapshot
        raise MetadataUnavailable("etcd's watch does not tell of what has changed")

    # -- changing ---------------------------------------------------------------------------------------

    async def change(
        self,
        basis: Snapshot,
        mutation: Mutation,
        *,
        controller_epoch: int = 0,
        broker_epochs: Mapping[int, int] = NO_BROKERS,
    ) -> Snapshot:
        """Return a snapshot in which `mutation` is made, after every watcher was called with it.

        It is also refused if a broker in `broker_epochs` is not registered with that epoch any more.
        Changes of more than a hundred existing partitions are several transactions: at a refusal the first
        of them may have been made. Raises: MetadataConflict, BrokerFenced, MetadataUnavailable, StorageError;
        ChangeUnknown.
        """
        changes = changes_of(basis, mutation)
        rebased(changes, basis, self._snapshot)  # A conflict that is known already needs no question.
        guards = self.membership.compare()
        if controller_epoch:
            guards.append(created_at(self._keys.controller, controller_epoch))
        try:
            placed = with_directories(changes, basis.brokers)
            planned = Planner(self._keys, self._image).transactions(placed)
        except TooManyChanges as error:
            raise StorageError(str(error)) from error
        registered = [created_at(self._keys.broker(each), epoch) for each, epoch in broker_epochs.items()]
        revision = 0
        for transaction in planned:
            transaction.compares += registered
            revision = await self._make(transaction, guards)
        try:
            return await self.until(lambda snapshot: snapshot.version >= revision)
        except MetadataUnavailable as error:
            raise ChangeUnknown(f"the change is made, but {error}") from error

    async def _make(self, transaction: Transaction, guards: Sequence[Compare]) -> int:
        """Return the revision at which the transaction was made. Raises: as `change` does."""
        made = await self._transactions.make(transaction, guards)
        if isinstance(made, Refusal):
            await self._catch_up(made)
            raise MetadataConflict("another broker has changed the same")
        return made

    async def _catch_up(self, refusal: Refusal) -> None:
        """Return when the snapshot is as new as the keys that conflicted with a change."""
        seen = {key: 0 if item is None else item.mod_revision for key, item in refusal.looked.items()}

        def is_known(key: bytes, revision: int, version: int) -> bool:
            known = self._image.revision_of(key)
            return known == revision or (version >= revision if revision else known > refusal.revision)

        await self.until(lambda now: all(is_known(*each, now.version) for each in seen.items()))

    # -- brokers and the controller ---------------------------------------------------------------------

    async def register(self, broker: BrokerState) -> Snapshot:
        """Return a snapshot with `broker` registered under its lease, with its new epoch.

        `membership.keep` must run from then on. Raises: StorageError.
        """
        try:
            revision = await self.membership.join(broker)
        except EtcdUnavailable as error:
            raise MetadataUnavailable(f"etcd can't be reached: {error}") from error
        except EtcdError as error:
            raise StorageError(f"etcd refuses the registration: {error}") from error
        return await self.until(lambda snapshot: snapshot.version >= revision)

    async def last_life(self, node_id: int) -> UUID | None:
        """Return the process that registered last under this node id. Raises: StorageError."""
        key = self._keys.life(node_id)
        found = await self._find(key)
        try:
            return None if found is None else UUID(found.value.decode())
        except ValueError as error:
            raise StorageError(f"what etcd has under {key.decode()} is no life of a broker") from error

    async def forget_life(self, node_id: int) -> bool:
        """Forget which process registered last under this node id; return whether that was known.

        It is kept while one is registered. For a broker without data: any folder with its node id has lost
        nothing.
        Raises: StorageError, ChangeUnknown.
        """
        key = self._keys.life(node_id)
        found = await self._find(key)
        if found is None:
            return False
        # Every registration writes the key: a late transaction finds another revision than was read here.
        compares = [
            *self.membership.compare(),
            not_there(self._keys.broker(node_id)),
            unchanged_since(key, found.mod_revision),
        ]
        changes = self._keys.changes_of(node_id)
        gone = [Delete(key), Delete(changes, prefix_end(changes))]
        done = await self._transactions.send(compares, gone, again=True)
        if done is None:
            raise ChangeUnknown(f"etcd does not answer; the last life of broker {node_id} may be forgotten")
        return done.succeeded

    async def become_controller(self, node_id: int) -> int | None:
        """Return the epoch under which this broker is the controller, None where another one is.

        Raises: StorageError; ChangeUnknown, and the watch reports if it is or becomes the controller.
        """
        guards = self.membership.compare()
        put = Put(self._keys.controller, encoded(ControllerValue(node_id)), self.membership.lease_id)
        done = await self._transactions.send([*guards, not_there(self._keys.controller)], [put])
        if done is None:
            raise ChangeUnknown("etcd does not answer; this broker may be the controller, or become it")
        if not done.succeeded:
            return None
        await self.until(lambda snapshot: snapshot.version >= done.revision)
        return done.revision

    async def expel(self, broker: BrokerState) -> Snapshot:
        """Return a snapshot in which this registration of a broker is removed, and not the controller.

        If that is so already, or a newer registration exists, nothing is done. Raises: StorageError,
        ChangeUnknown.
        """
        while _lives(self._snapshot, broker):
            now = self._snapshot
            guards = self.membership.compare()
            gone = Transaction([*guards])
            for key, epoch in (
                (self._keys.broker(broker.node_id), broker.epoch),
                (self._keys.controller, now.controller_epoch),
            ):
                if key != self._keys.controller or now.controller_id == broker.node_id:
                    gone.add(created_at(key, epoch), Delete(key))
            looks = [Range(each.key) for each in guards]
            # Each registration has its own epoch: no other is removed by a repeated or late transaction.
            done = await self._transactions.send(gone.compares, gone.operations, looks, again=True)
            if done is None:
                raise ChangeUnknown(f"etcd does not answer; broker {broker.node_id} may be taken out")
            if not done.succeeded:
                self._transactions.check_guards(guards, done)
            # The watch reports the conflict, or the result.
            await self.until(lambda snapshot, before=now.version: snapshot.version > before)  # type: ignore[misc]
        return self._snapshot

    # -- producer ids -----------------------------------------------------------------------------------

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> range:
        """Return ids that no broker was ever given. Raises: StorageError.

        Metadata restored from a backup know fewer ids than logs do. So the ids are also above
        all that could be allocated until etcd's current revision, which a restore raises.
        """
        assert count > 0
        key = self._keys.producer_ids
        while True:
            looked = await self._look(key)
            found = looked.items[0] if looked.items else None
            first = max(0 if found is None else int(found.value), looked.revision * PRODUCER_ID_BLOCK)
            revision = 0 if found is None else found.mod_revision
            taken = Put(key, str(first + count).encode())
            done = await self._transactions.send([unchanged_since(key, revision)], [taken])
            if done is not None and done.succeeded:
                return range(first, first + count)
            # Another broker was quicker, or the result is unknown: then these ids are skipped.

    async def _find(self, key: bytes) -> KeyValue | None:
        items = (await self._look(key)).items
        return items[0] if items else None

    async def _look(self, key: bytes) -> Found:
        try:
            return await self._client.range(Range(key))
        except EtcdUnavailable as error:
            raise MetadataUnavailable(f"etcd can't be reached: {error}") from error
        except EtcdError as error:
            raise StorageError(f"etcd refuses: {error}") from error


def _lives(snapshot: Snapshot, broker: BrokerState) -> bool:
    """Return whether exactly this registration of the broker exists."""
    here = snapshot.broker(broker.node_id)
    return here is not None and here.epoch == broker.epoch


async def _read(client: Calls, keys: Keys) -> EtcdImage:
    """Return all that etcd has of the cluster. Raises: StorageError."""
    try:
        found = await client.range_all(keys.prefix, keys.end)
    except EtcdUnavailable as error:
        raise MetadataUnavailable(f"etcd can't be reached: {error}") from error
    except EtcdError as error:
        raise StorageError(f"etcd refuses: {error}") from error
    return EtcdImage(keys, found.items, found.revision)
