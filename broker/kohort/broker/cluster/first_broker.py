"""A broker that was alone begins a cluster: topics and settings go along, records are where they were.

The folder's metadata file is renamed after all of it is in etcd. A start that was interrupted before
continues: existing topics have the same topic id.
"""

from collections.abc import Iterator, Sequence

import msgspec
import structlog
import trio

from kohort.broker.metadata import (
    ChangeUnknown,
    EmbeddedMetadataStore,
    Mutation,
    PartitionState,
    Snapshot,
    TopicState,
    update,
)
from kohort.broker.metadata.embedded import has_kraft_metadata
from kohort.broker.metadata.etcd_store import EtcdMetadataStore
from kohort.broker.metadata.file import FILE_NAME, MetadataFile
from kohort.storage import DataDirectory, StorageError

JOINED_SUFFIX = ".joined"
TOPICS_AT_ONCE = 50

log = structlog.get_logger("kohort.cluster")


async def take_along(store: EtcdMetadataStore, data: DataDirectory, node_id: int) -> None:
    """Put the folder's own metadata into the cluster's, which has the folder's cluster id.

    Nothing is done for a folder that has none. Raises: StorageError, also where the cluster has another
    topic of the same name.
    """
    files = data.file_system
    if MetadataFile(files, data.path).is_missing() and not has_kraft_metadata(files, data.path):
        return
    alone = EmbeddedMetadataStore.open(
        files, data.path, cluster_id=store.snapshot().cluster_id, node_id=node_id
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.follow)
        try:
            await _copy(alone, store)
        except ChangeUnknown as error:  # The next start continues from here.
            raise StorageError(f"nobody knows how much is in etcd by now: {error}") from error
        nursery.cancel_scope.cancel()
    try:
        files.rename(data.path / FILE_NAME, data.path / f"{FILE_NAME}{JOINED_SUFFIX}")
        files.sync_directory(data.path)
    except OSError as error:
        raise StorageError(f"{data.path / FILE_NAME} can't be renamed: {error}") from error


async def _copy(alone: EmbeddedMetadataStore, store: EtcdMetadataStore) -> None:
    stored = alone.snapshot()
    topics = tuple(stored.topics.values())
    for begin in range(0, len(topics), TOPICS_AT_ONCE):
        some = topics[begin : begin + TOPICS_AT_ONCE]
        await update(store, lambda now, some=some: Mutation(put=tuple(_missing(now, some))))  # type: ignore[misc]
    await update(store, lambda now: _configs(stored, now))
    # Those given out are below the next one: as many again, and none of them is ever given out twice.
    given = (await alone.allocate_producer_ids(1)).start
    if given:
        await store.allocate_producer_ids(given)
    log.info("a standalone broker becomes the first broker of a cluster", topics=len(topics))


def _missing(now: Snapshot, topics: Sequence[TopicState]) -> Iterator[TopicState]:
    """Yield the topics that the cluster lacks. Raises: StorageError."""
    for topic in topics:
        present = now.topics.get(topic.name)
        if present is None:
            yield msgspec.structs.replace(topic, partitions=tuple(map(_led_anew, topic.partitions)))
        elif present.topic_id != topic.topic_id:
            raise StorageError(f"the cluster has another topic {topic.name} than the data folder")


def _led_anew(state: PartitionState) -> PartitionState:
    return msgspec.structs.replace(
        state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1
    )


def _configs(stored: Snapshot, now: Snapshot) -> Mutation:
    missing = {resource: values for resource, values in stored.configs.items() if resource not in now.configs}
    return Mutation(configs=missing)
