"""Applies a fetch's answer to each partition: records, a better broker, or an error."""

import logging
from collections.abc import Iterable

from kohort.client.cluster import Cluster
from kohort.client.config import ConsumerConfig
from kohort.client.errors import BrokerError
from kohort.client.fetch_buffer import FetchBuffer
from kohort.client.fetched_chunk import Chunk, next_offset_behind
from kohort.client.positions import Fetching, PartitionState
from kohort.client.retry import monotonic_ms
from kohort.client.values import Node
from kohort.protocol.errors import ErrorCode
from kohort.protocol.messages.fetch import FetchResponseNodeEndpoint, PartitionData

logger = logging.getLogger(__name__)

_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_UNKNOWN_ID = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID})
_LATER = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})


class FetchAnswers:
    """Applies answers. `is_metadata_stale` tells afterwards whether leaders have to be looked up."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, buffer: FetchBuffer) -> None:
        self.is_metadata_stale = False
        self._cluster = cluster
        self._config = config
        self._buffer = buffer
        self._answers = 0

    def take(
        self,
        state: PartitionState,
        fetching: Fetching,
        data: PartitionData,
        endpoints: Iterable[FetchResponseNodeEndpoint] = (),
    ) -> bool:
        """Apply the answer to this fetch; return whether there is something for the user."""
        if state.stand.fetching is not fetching:
            return False
        if data.error_code:
            return self._refused(state, data, endpoints)
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            state.use_replica(data.preferred_read_replica, monotonic_ms() + self._config.metadata_max_age_ms)
        return self._received(state, fetching, data)

    def _received(self, state: PartitionState, fetching: Fetching, data: PartitionData) -> bool:
        records = data.records
        if records is None or len(records) == 0:
            return False
        assert isinstance(records, bytes | bytearray | memoryview)
        next_offset = next_offset_behind(records)
        if next_offset is None:  # A repeated request gets the same: the user gets the error, as in Java.
            where = f"{state.partition} at offset {state.fetch_offset}"
            words = f"{where}: an answer of {len(records)} bytes has no whole batch"
            self._buffer.add(Chunk(state, failure=BrokerError(ErrorCode.CORRUPT_MESSAGE, words)))
            return True
        aborted = (data.aborted_transactions or ()) if self._config.reads_committed else None
        self._answers += 1
        state.served = self._answers
        fetching.offset = max(fetching.offset or 0, next_offset)
        self._buffer.add(Chunk(state, records, check_crcs=self._config.check_crcs, aborted=aborted))
        return True

    def _refused(
        self, state: PartitionState, data: PartitionData, endpoints: Iterable[FetchResponseNodeEndpoint]
    ) -> bool:
        code = data.error_code
        logger.debug("fetching %s at %s: error %d", state.partition, state.fetch_offset, code)
        had_replica = state.forget_replica()
        if code in _UNKNOWN_ID:
            state.is_topic_refused = True
        if code in _MOVED:
            if self._learn_leader(state, data, endpoints):
                return False
            self.is_metadata_stale = True
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE and had_replica:
            return False  # The follower may lag behind: the leader decides.
        elif code not in _LATER:
            self._buffer.add(Chunk(state, failure=BrokerError(code, f"partition {state.partition}")))
            return True
        state.retry_at_ms = monotonic_ms() + self._config.retry_backoff_ms
        return False

    def _learn_leader(
        self, state: PartitionState, data: PartitionData, endpoints: Iterable[FetchResponseNodeEndpoint]
    ) -> bool:
        """Return whether the answer names a leader that is newer than the one known (KIP-951)."""
        leader = data.current_leader
        if leader.leader_id < 0 or leader.leader_epoch < 0:
            return False
        nodes = [Node(each.node_id, each.host, each.port, each.rack) for each in endpoints]
        return self._cluster.metadata.learn_leader(
            state.partition, leader.leader_id, leader.leader_epoch, nodes
        )
