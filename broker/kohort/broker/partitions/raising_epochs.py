"""Partitions whose leader epoch has to be raised: one change raises all that wait.

A log may have lost its end, or has a higher epoch than metadata restored from a backup. Each change
of the metadata writes all of them; for thousands of logs, a change for each would take hours.
"""

import structlog

from kohort.broker.metadata import MetadataStore
from kohort.broker.metadata.leader_epochs import raise_above
from kohort.broker.metadata.store import Failed
from kohort.broker.partitions.partition import Partition
from kohort.broker.runtime.workers import Workers

RETRY_SECONDS = 1.0

log = structlog.get_logger("kohort.partition")


class RaisingEpochs:
    """The partitions that wait for a new leader epoch. The loop's thread only."""

    def __init__(self, metadata: MetadataStore, workers: Workers) -> None:
        self._metadata = metadata
        self._workers = workers
        self._waiting: dict[Partition, int] = {}  # With the epoch that the new one has to be above.
        self._is_raising = False

    def lost_tail(self, partition: Partition) -> None:
        """Request a new epoch for a partition that has lost its end; until then it refuses requests."""
        self._raise(partition, partition.leader_epoch)

    def is_behind(self, partition: Partition, epoch: int) -> None:
        """Raise the epoch above this one, which the partition had before the metadata stepped back."""
        if not self._is_raising:  # One log line, for one partition or for thousands.
            log.warning(
                "the metadata have older leader epochs than the logs, as a backup has: they are raised",
                topic=partition.topic,
                partition=partition.index,
                leader_epoch=epoch,
            )
        self._raise(partition, epoch)

    def _raise(self, partition: Partition, epoch: int) -> None:
        self._waiting[partition] = max(epoch, self._waiting.get(partition, epoch))
        if not self._is_raising:
            self._is_raising = True
            self._workers.spawn(self._raise_all)

    async def _raise_all(self) -> None:
        """Raise the epochs of all waiting partitions, and of those added meanwhile, until none is left."""
        try:
            while self._waiting:
                taken = {each: epoch for each, epoch in self._waiting.items() if not each.deleted}
                self._waiting.clear()
                try:
                    await raise_above(
                        self._metadata,
                        {(each.topic_id, each.index): epoch for each, epoch in taken.items()},
                    )
                except Failed as error:  # If it was made, they get an even newer one.
                    log.error("leader epochs cannot be raised", partitions=len(taken), error=str(error))
                    for each, epoch in taken.items():
                        self._waiting[each] = max(epoch, self._waiting.get(each, epoch))
                    await self._workers.sleep(RETRY_SECONDS)
        finally:
            self._is_raising = False
