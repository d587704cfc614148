"""The metadata of one broker on its own: a snapshot in memory, a file in the data folder."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog
import trio

from kohort.broker.metadata.changes import changes_of, rebased
from kohort.broker.metadata.file import MetadataFile
from kohort.broker.metadata.format import Stored
from kohort.broker.metadata.snapshot import BrokerState, Mutation, ResourceType, Snapshot, topics_by_id
from kohort.broker.metadata.store import PRODUCER_ID_BLOCK, ChangeUnknown, Watcher
from kohort.broker.metadata.watchers import Watchers
from kohort.storage import FileSystem, StorageError
from kohort.storage.layout import METADATA_FOLDER, SEGMENT_FILE

log = structlog.get_logger("kohort.metadata")


class EmbeddedMetadataStore:
    """A `MetadataStore` whose changes are in the file before they are visible.

    Brokers are not stored: the one broker registers itself at each start. Changes are written one
    after another in a worker thread; the loop goes on meanwhile.
    """

    def __init__(self, file: MetadataFile, stored: Stored, cluster_id: str, node_id: int) -> None:
        self._file = file
        self._stored = stored
        self._writing = trio.Lock()
        self._watchers = Watchers()
        topics = {topic.name: topic for topic in stored.topics}
        self._snapshot = Snapshot(
            version=stored.version,
            cluster_id=cluster_id,
            controller_id=node_id,
            topics=topics,
            topics_by_id=topics_by_id(stored.topics),
            configs=stored.configs,
        )

    @classmethod
    def open(
        cls,
        filesystem: FileSystem,
        folder: Path,
        *,
        cluster_id: str,
        node_id: int,
        forget_broker_settings: bool = False,
    ) -> "EmbeddedMetadataStore":
        """Return the store of the data folder; one without a metadata file begins with no topics.

        In a folder of Apache Kafka it starts with Kafka's metadata. With `forget_broker_settings` altered
        settings of brokers are removed from the file; topics keep theirs.
        Raises: StorageError if the file is damaged or can't be read.
        """
        file = MetadataFile(filesystem, folder)
        if file.is_missing() and has_kraft_metadata(filesystem, folder):
            from kohort.broker.metadata.takeover import take_over  # noqa: PLC0415  # Only Kafka's folders need it.

            _write(file, take_over(filesystem, folder, node_id))
        stored = file.load()
        if forget_broker_settings:
            stored = _without_broker_settings(stored)
            _write(file, stored)
        return cls(file, stored, cluster_id, node_id)

    def snapshot(self) -> Snapshot:
        """Return the newest metadata."""
        return self._snapshot

    async def change(self, basis: Snapshot, mutation: Mutation, *, controller_epoch: int = 0) -> Snapshot:
        """Return the snapshot after `mutation`: it is in the file, and the watchers were called.

        Raises: MetadataConflict, StorageError; ChangeUnknown, and then the file may have the change until the
        next one.
        """
        async with self._writing:
            if self._snapshot is not basis:
                mutation = rebased(changes_of(basis, mutation), basis, self._snapshot)
            after = self._snapshot.after(mutation)
            await self._save(after, self._stored.next_producer_id)
            return self._become(after)

    async def register(self, broker: BrokerState) -> Snapshot:
        """Return the snapshot in which `broker` is known; it is not stored."""
        async with self._writing:
            return self._become(self._snapshot.with_broker(broker))

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` at each change from now on; return the function that ends it."""
        return self._watchers.add(watcher)

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> range:
        """Return ids that were never given before; that they are gone is in the file by then.

        Raises: StorageError.
        """
        assert count > 0
        async with self._writing:
            first = self._stored.next_producer_id
            try:
                await self._save(self._snapshot, first + count)
            except ChangeUnknown as error:  # They are not allocated now, and maybe later.
                raise StorageError(str(error)) from error
            return range(first, first + count)

    async def _save(self, snapshot: Snapshot, next_producer_id: int) -> None:
        stored = Stored(
            version=snapshot.version,
            next_producer_id=next_producer_id,
            configs=snapshot.configs,
            topics=tuple(snapshot.topics.values()),
        )
        # Not abandoned when cancelled: whether the file has the change is known afterwards.
        await trio.to_thread.run_sync(self._file.save, stored)
        self._stored = stored

    def _become(self, after: Snapshot) -> Snapshot:
        before, self._snapshot = self._snapshot, after
        self._watchers.changed(before, after)
        return after


def _write(file: MetadataFile, stored: Stored) -> None:
    """Save the initial metadata of a start: if that fails, the next start does the same.

    Raises: StorageError.
    """
    try:
        file.save(stored)
    except ChangeUnknown as error:
        raise StorageError(str(error)) from error


def _without_broker_settings(stored: Stored) -> Stored:
    """Return the stored metadata without altered settings of brokers, and log these."""
    dropped = {
        resource: values
        for resource, values in stored.configs.items()
        if resource.type == ResourceType.BROKER
    }
    for resource, values in dropped.items():
        log.warning("stored settings are forgotten", broker=resource.name or "every broker", **values)
    kept = {resource: values for resource, values in stored.configs.items() if resource not in dropped}
    return msgspec.structs.replace(stored, version=stored.version + 1, configs=kept)


def has_kraft_metadata(file_system: FileSystem, folder: Path) -> bool:
    """Whether Apache Kafka has kept its metadata in this data folder. Raises: StorageError."""
    try:
        return any(map(SEGMENT_FILE.fullmatch, file_system.list_directory(folder / METADATA_FOLDER) or ()))
    except OSError as error:
        raise StorageError(f"{folder / METADATA_FOLDER} cannot be read: {error}") from error
