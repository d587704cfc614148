"""Partitions whose logs have lost their ends: they go on under a new leader epoch, all that wait at once.

Each change of the metadata writes all of it; where a disk has lost the ends of thousands of logs, a change
for each would take hours.
"""

import structlog

from kohort.broker.metadata import MetadataStore
from kohort.broker.metadata.leader_epochs import raise_leader_epochs
from kohort.broker.metadata.store import Failed
from kohort.broker.partitions.partition import Partition
from kohort.broker.runtime.workers import Workers

RETRY_SECONDS = 1.0

log = structlog.get_logger("kohort.partition")


class LostTails:
    """Who waits for a new leader epoch. The loop's thread only."""

    def __init__(self, metadata: MetadataStore, node_id: int, workers: Workers) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._workers = workers
        self._waiting: dict[Partition, None] = {}
        self._is_raising = False

    def raise_leader_epoch(self, partition: Partition) -> None:
        """Let the partition go on under a new epoch; until that is on the disk it serves nobody."""
        self._waiting[partition] = None
        if not self._is_raising:
            self._is_raising = True
            self._workers.spawn(self._raise_all)

    async def _raise_all(self) -> None:
        """Raise the epochs of all who wait, and of those who came meanwhile, until nobody is left."""
        try:
            while self._waiting:
                taken = [each for each in self._waiting if not each.deleted]
                self._waiting.clear()
                try:
                    await self._raise(taken)
                except Failed as error:  # If it was made, they go on under a newer one yet.
                    log.error("leader epochs cannot be raised", partitions=len(taken), error=str(error))
                    self._waiting.update(dict.fromkeys(taken))
                    await self._workers.sleep(RETRY_SECONDS)
        finally:
            self._is_raising = False

    async def _raise(self, partitions: list[Partition]) -> None:
        places = {(each.topic_id, each.index) for each in partitions}
        if places:
            await raise_leader_epochs(self._metadata, self._node_id, lambda *place: place in places)
