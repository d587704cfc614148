"""A follower's fetch session with one leader: fetch offsets are sent once, and then only changed ones.

Source: KIP-227; kafka.server's RemoteLeaderEndPoint and FetchSessionHandler.
"""

from collections.abc import Mapping
from uuid import UUID

from kohort.broker.metadata import PartitionKey
from kohort.broker.replication import FetchFrom
from kohort.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

NO_SESSION = 0
INITIAL_EPOCH = 0
EPOCH_MAX = 2**31 - 1


class FollowerSession:
    """The leader's knowledge of this broker's fetch offsets on a connection."""

    def __init__(self, max_wait_ms: int, max_bytes: int, partition_max_bytes: int) -> None:
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[PartitionKey, FetchFrom] = {}
        self._reported: set[PartitionKey] = set()
        self._changed: dict[PartitionKey, None] = {}  # Partitions that the leader does not know yet,
        self._forgotten: dict[PartitionKey, None] = {}  # and partitions that it has to forget.

    def want(self, key: PartitionKey, at: FetchFrom | None) -> None:
        """Fetch a partition from this offset, or not at all for now."""
        wanted = self._wanted
        if at is None:
            if wanted.pop(key, None) is not None:
                self._changed.pop(key, None)
                if key in self._reported:
                    self._forgotten[key] = None
        elif wanted.get(key) != at:
            wanted[key] = at
            self._changed[key] = None
            self._forgotten.pop(key, None)

    def request(self, node_id: int, broker_epoch: int) -> FetchRequest:
        """Return the fetch of all that is wanted."""
        changed = {key: self._wanted[key] for key in self._changed}
        forgotten = list(self._forgotten)
        self._reported.update(changed)
        self._reported.difference_update(forgotten)
        self._changed, self._forgotten = {}, {}
        return FetchRequest(
            replica_state=ReplicaState(replica_id=node_id, replica_epoch=broker_epoch),
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=self._topics(changed),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def _topics(self, changed: Mapping[PartitionKey, FetchFrom]) -> tuple[FetchTopic, ...]:
        topics: dict[UUID, list[FetchPartition]] = {}
        for (topic_id, index), at in changed.items():
            topics.setdefault(topic_id, []).append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=at.leader_epoch,
                    fetch_offset=at.offset,
                    last_fetched_epoch=at.last_fetched_epoch,
                    log_start_offset=at.log_start_offset,
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        return tuple(
            FetchTopic(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in topics.items()
        )

    def answered(self, session_id: int) -> None:
        """Apply the session of the answer; without one all partitions are sent again."""
        if session_id == NO_SESSION:
            self.reset()
            return
        self._session_id = session_id
        self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """Restart: the leader does not know the session any more."""
        self._session_id, self._epoch = NO_SESSION, INITIAL_EPOCH
        self._reported.clear()
        self._changed, self._forgotten = dict.fromkeys(self._wanted), {}


def _forgotten(keys: list[PartitionKey]) -> tuple[ForgottenTopic, ...]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return tuple(
        ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes)) for topic_id, indexes in topics.items()
    )
