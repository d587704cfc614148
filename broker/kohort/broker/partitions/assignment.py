"""The partitions on this broker, and its role in each: kept equal to the metadata."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.broker.config import TopicConfig, topic_config
from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import MetadataStore, PartitionKey, PartitionState, Snapshot, TopicState
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.partitions.index import PartitionIndex, Partitions
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.opening import LogOpening
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.unsynced import Unsynced
from kohort.broker.runtime.workers import WorkQueue
from kohort.storage.layout import log_id_of

if TYPE_CHECKING:
    from kohort.broker.partitions.replicas import Replicas

MayLead = Callable[[PartitionKey, PartitionState], bool]
"""Returns whether the broker's lease lets it act as the partition's leader under that state."""


class PartitionAssignment:
    """Adds, changes and removes partitions as the metadata say. All methods belong to the loop's thread."""

    def __init__(
        self,
        partitions: PartitionIndex,
        metadata: MetadataStore,
        current: CurrentConfig,
        node_id: int,
        *,
        opening: LogOpening,
        files: LogFiles,
        file_work: WorkQueue,
        flusher: Flusher,
        unsynced: Unsynced,
        may_lead: MayLead | None,
        replicas: "Replicas | None",
        on_lax: Callable[[Partition], None],
    ) -> None:
        """Take the partitions that the metadata give to this broker. Raises: StorageError."""
        self._partitions = partitions
        self._metadata = metadata
        self._current = current
        self._node_id = node_id
        self._opening = opening
        self._files = files
        self._file_work = file_work
        self._flusher = flusher
        self._unsynced = unsynced
        self._may_lead = may_lead
        self._replicas = replicas
        self._on_lax = on_lax
        files.set_strays_aside(metadata.snapshot(), self._has_replica)
        if replicas is not None:
            replicas.know_brokers(metadata.snapshot())
        for topic in metadata.snapshot().topics.values():
            self._put(topic)
        self._unwatch = metadata.watch(self._apply)

    def close(self) -> None:
        """Stop following the metadata."""
        self._unwatch()

    def _apply(self, before: Snapshot, after: Snapshot) -> None:
        """Apply `after` to the table; topics that are the same object have not changed."""
        for name, topic in before.topics.items():
            now = after.topics.get(name)
            if now is None or now.topic_id != topic.topic_id:
                self._remove(topic)
        all_changed = before.configs is not after.configs and before.configs != after.configs
        if self._replicas is not None and before.brokers is not after.brokers:
            self._replicas.know_brokers(after)
        coming: list[Partition] = []
        for name, topic in after.topics.items():
            if all_changed or before.topics.get(name) is not topic:
                coming += self._put(topic)
        self._opening.create_soon(coming)

    def refresh(self) -> None:
        """Check again which partitions this broker may lead: its lease is over, or it has a new one."""
        coming: list[Partition] = []
        for topic in self._metadata.snapshot().topics.values():
            coming += self._put(topic)
        self._opening.create_soon(coming)

    def _put(self, topic: TopicState) -> list[Partition]:
        """Apply the topic's settings, add the new partitions, and return those of this broker."""
        config = topic_config(self._current.config, dict(topic.configs))
        partitions = self._partitions.topic_list(topic.name, topic.topic_id)
        for missing in partitions[len(topic.partitions) :]:  # In old metadata that were restored.
            if missing is not None:
                self._remove_one(missing)
        del partitions[len(topic.partitions) :]
        for partition in partitions:
            if partition is not None:
                is_changed = config != partition.config
                partition.follow(config, topic.partitions[partition.index].leader_epoch)
                if is_changed:
                    self._sync_by_settings(partition)
        made = [
            self._make(topic, config, state) if self._is_here(topic, state) else None
            for state in topic.partitions[len(partitions) :]
        ]
        if self._may_lead is not None:
            made += self._settled(topic, config, partitions)
        partitions.extend(made[: len(topic.partitions) - len(partitions)])
        return [partition for partition in made if partition is not None]

    def _sync_by_settings(self, partition: Partition) -> None:
        """Sync records if the current settings ask for it: they may have been written under laxer ones."""
        serving_log = partition.serving_log
        if serving_log is None or serving_log.flushed_offset == serving_log.log_end_offset:
            self._unsynced.note_synced(partition)
        elif partition.wants_sync():
            self._flusher.request(partition, lambda _: self._unsynced.note_synced(partition))
        else:
            self._on_lax(partition)

    def _leads(self, topic: TopicState, state: PartitionState) -> bool:
        if state.leader != self._node_id:
            return False
        return self._may_lead is None or self._may_lead((topic.topic_id, state.index), state)

    def _is_here(self, topic: TopicState, state: PartitionState) -> bool:
        """Whether the partition's log is on this broker: a single broker leads all its partitions."""
        if self._may_lead is None:
            return state.leader == self._node_id
        return self._node_id in state.replicas

    def _has_replica(self, key: tuple[str, int]) -> bool:
        """Whether the log of a partition of a known topic may be on this broker."""
        topic = self._metadata.snapshot().topics.get(key[0])
        if self._may_lead is None or topic is None or key[1] >= len(topic.partitions):
            return True
        return self._node_id in topic.partitions[key[1]].replicas

    def _settled(self, topic: TopicState, config: TopicConfig, known: Partitions) -> list[Partition]:
        """Let known partitions lead or resign. Return the partitions that are new on this broker."""
        made: list[Partition] = []
        for state in topic.partitions[: len(known)]:
            partition = known[state.index]
            if partition is None:
                if self._is_here(topic, state):
                    partition = known[state.index] = self._make(topic, config, state)
                    made.append(partition)
            elif self._node_id not in state.replicas:
                known[state.index] = None
                self._remove_one(partition)
            elif self._replicas is not None and (partition.replicated or len(state.replicas) > 1):
                was_replicated = partition.replicated
                self._replicas.settle(partition, state, leads=self._leads(topic, state))
                if not was_replicated and not self._unsynced.became_replicated(partition):
                    partition.sync_due = True
                    self._flusher.request(partition, lambda _: None)
            elif self._leads(topic, state):
                partition.lead_alone()
            else:
                partition.resign()
        return made

    def _make(self, topic: TopicState, config: TopicConfig, state: PartitionState) -> Partition:
        made = Partition(
            topic.name,
            topic.topic_id,
            state.index,
            leader_epoch=state.leader_epoch,
            config=config,
            host=self._opening,
        )
        self._opening.add(made)
        leads = self._leads(topic, state)
        if self._replicas is not None and len(state.replicas) > 1:
            self._replicas.settle(made, state, leads=leads)
        elif not leads:
            made.resign()
        return made

    def _remove(self, topic: TopicState) -> None:
        self._opening.forget_topic(topic.name)
        for partition in self._partitions.remove_topic(topic.name, topic.topic_id):
            if partition is not None:
                self._remove_one(partition)

    def _remove_one(self, partition: Partition) -> None:
        """Remove a partition with its files: it was deleted, or moved to other brokers.

        If the metadata were reloaded, no deletion is certain: they may be older than the partition. Then its
        files are set aside.
        """
        self._opening.remove(partition)
        if self._replicas is not None:
            self._replicas.forget(partition)
        partition.close()
        self._unsynced.synced(partition)
        self._files.announce_deletion(partition, is_kept=self._metadata.snapshot().is_reloaded)
        if not partition.had_log:
            self._delete_unnamed(partition)
        else:  # A running flush must end first, and the flusher knows when.
            self._flusher.request(partition, lambda _: self._delete_unnamed(partition))

    def _delete_unnamed(self, partition: Partition) -> None:
        """Delete the files once the journal has nothing of the log: the partition may come back."""
        log_id = log_id_of(partition.topic_id, partition.index)
        self._flusher.when_unnamed(log_id, lambda _: self._delete_files(partition))

    def _delete_files(self, partition: Partition) -> None:
        """Delete the files, and open the log of the partition that has the name by now."""
        self._file_work.submit(self._files.delete, partition)
        successor = self._partitions.peek(partition.topic, partition.index)
        if successor is not None and not successor.opened:
            self._file_work.submit(successor.open)
