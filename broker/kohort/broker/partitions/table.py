"""Every partition that is on this broker, and what requests ask of it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kohort.broker.config.current import CurrentConfig
from kohort.broker.metadata import MetadataStore
from kohort.broker.partitions.assignment import MayLead, PartitionAssignment
from kohort.broker.partitions.data_folder import DataFolder
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.partitions.index import PartitionIndex
from kohort.broker.partitions.log_files import LogFiles
from kohort.broker.partitions.low_watermarks import Start, until_everywhere
from kohort.broker.partitions.opening import OPENERS_WHILE_SERVING, LogOpening
from kohort.broker.partitions.partition import Partition
from kohort.broker.partitions.reopening import LogReopening
from kohort.broker.partitions.unsynced import Unsynced
from kohort.broker.partitions.waits import TaskWait
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.loop import Loop
from kohort.broker.runtime.supervisor import UNWATCHED, Watched
from kohort.broker.runtime.timers import Timers
from kohort.broker.runtime.workers import LoggedQueue, Workers
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.storage import StorageError

if TYPE_CHECKING:
    from kohort.broker.partitions.replicas import Replicas


def _ignore(*_: object) -> None:
    """Do nothing."""


class PartitionTable(PartitionIndex):
    """The partitions of this broker, with what keeps them. All methods belong to the loop's thread."""

    def __init__(
        self,
        metadata: MetadataStore,
        current: CurrentConfig,
        node_id: int,
        *,
        files: LogFiles,
        flusher: Flusher,
        timers: Timers,
        clock: Clock,
        loop: Loop,
        workers: Workers,
        may_lead: MayLead | None = None,
        replicas: "Replicas | None" = None,
        unsynced: Unsynced | None = None,
        on_lax: Callable[[Partition], None] = _ignore,
        on_lost_tail: Callable[[Partition], None] = _ignore,
        on_epoch_behind: Callable[[Partition, int], None] = _ignore,
    ) -> None:
        """Take the partitions that the metadata gives to `node_id`. Raises: StorageError.

        A single broker always leads all its partitions. In a cluster `may_lead` is called at each change of
        the metadata, and at each `refresh`; `replicas` decides on the roles of replicated partitions, and
        `unsynced` keeps which partitions have something that is not synced.

        `on_lax` is called if a partition that need not be synced at once has other settings. `on_lost_tail`
        has a newer leader epoch made for a partition whose log has lost its end; see `LogOpening`.
        `on_epoch_behind` has the metadata's leader epoch raised above this one.
        """
        super().__init__()
        self._metadata = metadata
        self._flusher = flusher
        self._workers = workers
        self._files = files
        self.replicas = replicas
        unsynced = unsynced or Unsynced()
        # In order: files go before others take their name.
        self._file_work = LoggedQueue(workers.queue("log-files"))
        self.reopening = LogReopening(
            files, flusher, unsynced, timers=timers, clock=clock, loop=loop, file_work=self._file_work
        )
        self.opening = LogOpening(
            self,
            files,
            self.reopening,
            replicas,
            clock=clock,
            loop=loop,
            workers=workers,
            file_work=self._file_work,
            on_lost_tail=on_lost_tail,
            on_epoch_behind=on_epoch_behind,
        )
        self.folder = DataFolder(self, files, workers)
        self.assignment = PartitionAssignment(
            self,
            metadata,
            current,
            node_id,
            opening=self.opening,
            files=files,
            file_work=self._file_work,
            flusher=flusher,
            unsynced=unsynced,
            may_lead=may_lead,
            replicas=replicas,
            on_lax=on_lax,
        )

    def close(self) -> None:
        """End the work on files that is in progress; the data folder closes the logs. Blocks.

        Files of deleted topics that are still there get a name under which the next start removes them.
        """
        self.assignment.close()
        self._file_work.shutdown(cancel_futures=True)
        self._files.put_off_deletions()

    async def recover(self, _part: Watched = UNWATCHED) -> None:
        """Open the logs that must be checked at a start, and let the next start know what they have."""
        await self.opening.open_all(OPENERS_WHILE_SERVING)
        if not self._files.clean or self._files.is_short:
            # The next start need not scan the scanned logs again, nor report the short ones again.
            await self.folder.checkpoint()
        await self.folder.forget_journal()

    def serving(self, topic: str, index: int, leader_epoch: int = -1) -> Partition:
        """Return the partition that serves under the leader epoch that the client knows, -1 for any.

        Raises: ApiError with Kafka's error code if there is none.
        """
        partition = self.get(topic, index)
        if partition is None:
            raise ApiError(self.why_missing(topic, index))
        error_code = partition.error_code or partition.check_leader_epoch(leader_epoch)
        if error_code is not None:
            raise ApiError(error_code)
        return partition

    def why_missing(self, topic: str | UUID, index: int) -> ErrorCode:
        """Return the error code for a partition that is not in the table."""
        snapshot = self._metadata.snapshot()
        if isinstance(topic, str):
            state = snapshot.topics.get(topic)
        else:
            state = snapshot.topics_by_id.get(topic)
            if state is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        if state is None or not 0 <= index < len(state.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def opened(self, topic: str, index: int) -> Partition:
        """Return the partition once its log is open; opening does not hold the loop up.

        Raises: StorageError if it is offline, or not here.
        """
        partition = self.peek(topic, index)
        if partition is None:
            raise StorageError(f"{topic}-{index} is not on this broker")
        if not partition.opened:
            await self.opening.opened((partition,))
        if partition.serving_log is None:
            raise partition.offline or StorageError(f"{topic}-{index} is not open yet")
        return partition

    def leads(self, topic: str, index: int) -> bool:
        """Whether this broker leads the partition, open or not."""
        partition = self.peek(topic, index)
        if partition is None:
            return False
        if partition.replicated and self.replicas is not None:
            return self.replicas.is_to_lead(partition)
        return not partition.resigned

    async def committed(self, partition: Partition) -> None:
        """Return once all that the log has by now is on every replica that counts.

        Raises: StorageError if this broker does not lead it, or not any more.
        """
        if not partition.replicated:
            return
        end_offset = -1
        while self.leads(partition.topic, partition.index) and not partition.deleted:
            if partition.leadership is not None:
                end_offset = partition.log.log_end_offset if end_offset < 0 else end_offset
                if partition.high_watermark >= end_offset:
                    return
            event = self._workers.event()
            wait = TaskWait(event)
            partition.waits[wait] = None
            try:
                await event.wait()
            finally:
                partition.waits.pop(wait, None)
        raise partition.led_elsewhere()

    def of_topic(self, topic: str) -> tuple[Partition, ...]:
        """Return the partitions of a topic that this broker leads, whether open or not, by their indexes."""
        return tuple(each for each in self._by_name.get(topic, ()) if each is not None and not each.resigned)

    async def between_writes(self, partition: Partition, action: Callable[[], None]) -> None:
        """Run `action` in the loop while nothing writes the partition's log: it may change its segments.

        Raises: StorageError where the flush before it failed, or where `action` does.
        """
        acted = self._workers.event()
        failures: list[Exception] = []

        def act(error: StorageError | None) -> None:
            try:
                if error is None:
                    action()
                else:
                    failures.append(error)
            except Exception as failure:  # noqa: BLE001  # The caller that waits gets it, a bug too.
                failures.append(failure)
            finally:
                acted.set()

        self._flusher.request(partition, act)
        await acted.wait()
        if failures:
            raise failures[0]

    async def until_begun_everywhere(self, starts: Sequence[Start], timeout_ms: int) -> None:
        """Return once these partitions begin there on all their replicas, or after that time."""
        await until_everywhere(starts, timeout_ms, self._workers)
