"""The metadata of one broker on its own: a snapshot in memory, a file in the data folder."""

from collections.abc import Callable
from pathlib import Path

import trio

from kohort.broker.metadata.file import MetadataFile
from kohort.broker.metadata.format import Stored
from kohort.broker.metadata.snapshot import BrokerState, Mutation, Snapshot, topics_by_id
from kohort.broker.metadata.store import PRODUCER_ID_BLOCK, MetadataConflict, Watcher
from kohort.storage import FileSystem, StorageError
from kohort.storage.layout import METADATA_FOLDER, SEGMENT_FILE


class EmbeddedMetadataStore:
    """A `MetadataStore` whose changes are in the file before anybody sees them.

    Brokers are not stored: the one broker registers itself at each start. Changes are written one
    after another in a worker thread; the loop goes on meanwhile.
    """

    def __init__(self, file: MetadataFile, stored: Stored, cluster_id: str, node_id: int) -> None:
        self._file = file
        self._stored = stored
        self._writing = trio.Lock()
        self._watchers: list[Watcher] = []
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
        cls, filesystem: FileSystem, folder: Path, *, cluster_id: str, node_id: int
    ) -> "EmbeddedMetadataStore":
        """Return the store of the data folder; one without a metadata file begins with no topics.

        In a folder that Apache Kafka wrote it begins with Kafka's.
        Raises: StorageError if the file is damaged or can't be read.
        """
        file = MetadataFile(filesystem, folder)
        if file.is_missing() and _has_kraft_metadata(filesystem, folder):
            from kohort.broker.metadata.takeover import take_over  # noqa: PLC0415  # Only Kafka's folders need it.

            file.save(take_over(filesystem, folder, node_id))
        return cls(file, file.load(), cluster_id, node_id)

    def snapshot(self) -> Snapshot:
        """Return the newest metadata."""
        return self._snapshot

    async def change(self, expected_version: int, mutation: Mutation) -> Snapshot:
        """Return the snapshot after `mutation`: in the file, and the watchers have been told.

        Raises: MetadataConflict, StorageError.
        """
        async with self._writing:
            if self._snapshot.version != expected_version:
                raise MetadataConflict(expected_version, self._snapshot.version)
            after = self._snapshot.after(mutation)
            await self._save(after, self._stored.next_producer_id)
            return self._become(after)

    async def register(self, broker: BrokerState) -> Snapshot:
        """Return the snapshot in which `broker` is known; it is not stored."""
        async with self._writing:
            return self._become(self._snapshot.with_broker(broker))

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` at each change from now on; return the function that ends it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    async def allocate_producer_ids(self, count: int = PRODUCER_ID_BLOCK) -> range:
        """Return ids that were never given before; that they are gone is in the file by then.

        Raises: StorageError.
        """
        assert count > 0
        async with self._writing:
            first = self._stored.next_producer_id
            await self._save(self._snapshot, first + count)
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
        for watcher in tuple(self._watchers):
            watcher(before, after)
        return after


def _has_kraft_metadata(file_system: FileSystem, folder: Path) -> bool:
    """Whether Apache Kafka has kept its metadata in this data folder. Raises: StorageError."""
    try:
        return any(map(SEGMENT_FILE.fullmatch, file_system.list_directory(folder / METADATA_FOLDER) or ()))
    except OSError as error:
        raise StorageError(f"{folder / METADATA_FOLDER} cannot be read: {error}") from error
