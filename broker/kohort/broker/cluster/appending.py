"""A follower's reaction to its leader's answers: append, sync, truncate, restart."""

from collections.abc import Callable

import structlog
import trio

from kohort.broker.partitions import Partition, PartitionTable
from kohort.broker.partitions.flusher import Flusher
from kohort.broker.replication import Following, Restart, Truncate
from kohort.broker.runtime.clock import Clock
from kohort.broker.runtime.turns import Turns
from kohort.protocol.errors import WireError
from kohort.protocol.records import BatchHeader, Buffer, iterate_batches, read_header
from kohort.storage import StorageError

log = structlog.get_logger("kohort.replication")


class Appending:
    """Changes the logs of followed partitions. The loop's thread."""

    def __init__(self, partitions: PartitionTable, flusher: Flusher, clock: Clock, turns: Turns) -> None:
        self._turns = turns
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock

    async def append(self, partition: Partition, following: Following, records: Buffer) -> bool:
        """Stage the records, byte for byte; return whether there are any. The caller requests the flush.

        Raises: StorageError; WireError for damaged records, and then nothing has changed.
        """
        headers = whole_batches(records)
        if not headers:
            return False
        own = partition.log
        if headers[0].base_offset < own.log_end_offset and own.log_start_offset == own.log_end_offset:
            # The leader's log begins within its first batch, and this one is empty.
            await self._begin_at(partition, following, headers[0].base_offset)
        if partition.following is not following:
            return False
        partition.log.stage_replicated(records, headers)
        return True

    async def flush(self, partitions: list[Partition]) -> None:
        """Return when the staged records are as durable as their topics ask, or have failed."""
        left = len(partitions)
        done = trio.Event()

        def flushed(_: StorageError | None) -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set()
                self._turns.let_tasks_run()

        for partition in partitions:
            self._flusher.request(partition, flushed)
        if left:
            await done.wait()

    def sync_what_is_waited_for(self, partition: Partition) -> None:
        """Request the sync that the next fetch waits for: the settings may have become stricter since."""
        if not self._flusher.is_waiting(partition):
            self._flusher.request(partition, lambda _: None)

    async def cut(self, partition: Partition, following: Following, cut: Truncate | Restart) -> None:
        """Truncate the log, on the disk as well. Raises: StorageError."""
        log.warning(
            "a follower's log is truncated",
            topic=partition.topic,
            partition=partition.index,
            to_offset=cut.offset,
            log_end_offset=partition.log.log_end_offset,
            high_watermark=following.high_watermark,
            begins_anew=isinstance(cut, Restart),
        )
        if isinstance(cut, Restart):
            await self._begin_at(partition, following, cut.offset)
        else:
            await self._between_writes(partition, following, lambda: partition.log.truncate_to(cut.offset))

    async def _begin_at(self, partition: Partition, following: Following, offset: int) -> None:
        await self._between_writes(partition, following, lambda: partition.log.restart_at(offset))

    async def _between_writes(
        self, partition: Partition, following: Following, change: Callable[[], None]
    ) -> None:
        """Change the log while it is not being written, and the journal has none of its removed batches."""
        is_over = False

        def act() -> None:
            nonlocal is_over
            if partition.following is following and partition.serving_log is not None:
                if self._flusher.is_named(partition.log.log_id):
                    return  # By a write that was under way.
                change()
                self._partitions.folder.was_cut(partition)
                following.truncated()
                partition.moved()
            is_over = True

        while not is_over and partition.following is following:  # A log that has failed needs the journal.
            await self._until_unnamed(partition)
            try:
                await self._partitions.between_writes(partition, act)
            except StorageError as error:
                partition.failed(error)
                raise

    async def _until_unnamed(self, partition: Partition) -> None:
        """Return once the journal has nothing of the log. Raises: StorageError where it can't be emptied."""
        told = trio.Event()
        failures: list[StorageError] = []

        def done(error: StorageError | None) -> None:
            if error is not None:
                failures.append(error)
            told.set()
            self._turns.let_tasks_run()

        self._flusher.when_unnamed(partition.log.log_id, done)
        await told.wait()
        if failures:
            raise failures[0]

    async def follow_start(self, partition: Partition, following: Following, offset: int) -> None:
        """Move the log start up to the leader's, as far as that is committed. Raises: StorageError."""
        own = partition.log
        offset = min(offset, following.high_watermark, own.written_offset)
        if offset > own.log_start_offset:
            await self._partitions.between_writes(
                partition, lambda: own.delete_records_before(offset, self._clock.wall_ms())
            )


def whole_batches(records: Buffer) -> list[BatchHeader]:
    """Return the headers of the batches that are whole, each checked. Raises: WireError."""
    headers: list[BatchHeader] = []
    for batch in iterate_batches(records, check_crcs=True):
        header = read_header(batch)
        if headers and header.base_offset < headers[-1].next_offset:
            raise WireError(f"a batch from {header.base_offset} on behind one to {headers[-1].next_offset}")
        headers.append(header)
    return headers
