"""Fetch (1): read record batches, and wait for them."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    NullableArray,
    NullableString,
    Records,
    String,
    Uuid,
    field,
)


@struct
class ReplicaState(Message):
    """The `replica_state` of `FetchRequest`."""

    replica_id: Int32 = field(default=-1, versions="15+")
    replica_epoch: Int64 = field(default=-1, versions="15+")


@struct
class FetchPartition(Message):
    """One of `partitions` in `FetchTopic`."""

    partition: Int32
    current_leader_epoch: Int32 = field(default=-1, versions="9+", ignorable=True)
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(default=-1, versions="12+")
    log_start_offset: Int64 = field(default=-1, versions="5+", ignorable=True)
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field(versions="17+", tag=0, tagged="17+", ignorable=True)
    high_watermark: Int64 = field(
        default=9223372036854775807, versions="18+", tag=1, tagged="18+", ignorable=True
    )


@struct
class FetchTopic(Message):
    """One of `topics` in `FetchRequest`."""

    topic: String = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: Array[FetchPartition]


@struct
class ForgottenTopic(Message):
    """One of `forgotten_topics_data` in `FetchRequest`."""

    topic: String = field(versions="7-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: Array[Int32] = field(versions="7+")


@message(api_key=1, versions="4-18", flexible="12+", max_items=MAX_PARTITIONS)
class FetchRequest(Message):
    """The fetch offset of each partition, and the limits of bytes and of waiting time.

    Kafka: FetchRequest.json.
    """

    cluster_id: NullableString = field(default=None, versions="12+", tag=0, tagged="12+", ignorable=True)
    replica_id: Int32 = field(default=-1, versions="0-14")
    replica_state: ReplicaState = field(versions="15+", tag=1, tagged="15+")
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=2147483647, versions="3+", ignorable=True)
    isolation_level: Int8 = field(default=0, versions="4+", ignorable=True)
    session_id: Int32 = field(default=0, versions="7+", ignorable=True)
    session_epoch: Int32 = field(default=-1, versions="7+", ignorable=True)
    topics: Array[FetchTopic]
    forgotten_topics_data: Array[ForgottenTopic] = field(versions="7+")
    rack_id: String = field(default="", versions="11+", ignorable=True)


@struct
class FetchResponseEpochEndOffset(Message):
    """The `diverging_epoch` of `PartitionData`."""

    epoch: Int32 = field(default=-1, versions="12+")
    end_offset: Int64 = field(default=-1, versions="12+")


@struct
class FetchResponseLeaderIdAndEpoch(Message):
    """The `current_leader` of `PartitionData`."""

    leader_id: Int32 = field(default=-1, versions="12+")
    leader_epoch: Int32 = field(default=-1, versions="12+")


@struct
class SnapshotId(Message):
    """The `snapshot_id` of `PartitionData`."""

    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


@struct
class AbortedTransaction(Message):
    """One of `aborted_transactions` in `PartitionData`."""

    producer_id: Int64 = field(versions="4+")
    first_offset: Int64 = field(versions="4+")


@struct
class PartitionData(Message):
    """One of `partitions` in `FetchableTopicResponse`."""

    partition_index: Int32
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = field(default=-1, versions="4+", ignorable=True)
    log_start_offset: Int64 = field(default=-1, versions="5+", ignorable=True)
    diverging_epoch: FetchResponseEpochEndOffset = field(versions="12+", tag=0, tagged="12+")
    current_leader: FetchResponseLeaderIdAndEpoch = field(versions="12+", tag=1, tagged="12+")
    snapshot_id: SnapshotId = field(versions="12+", tag=2, tagged="12+")
    aborted_transactions: NullableArray[AbortedTransaction] = field(versions="4+", ignorable=True)
    preferred_read_replica: Int32 = field(default=-1, versions="11+")
    records: Records


@struct
class FetchableTopicResponse(Message):
    """One of `responses` in `FetchResponse`."""

    topic: String = field(versions="0-12", ignorable=True)
    topic_id: Uuid = field(versions="13+", ignorable=True)
    partitions: Array[PartitionData]


@struct
class FetchResponseNodeEndpoint(Message):
    """One of `node_endpoints` in `FetchResponse`."""

    node_id: Int32 = field(versions="16+")
    host: String = field(versions="16+")
    port: Int32 = field(versions="16+")
    rack: NullableString = field(default=None, versions="16+")


@message(api_key=1, versions="4-18", flexible="12+")
class FetchResponse(Message):
    """Record batches per partition, with the high watermark. Kafka: FetchResponse.json."""

    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    error_code: Int16 = field(versions="7+", ignorable=True)
    session_id: Int32 = field(default=0, versions="7+")
    responses: Array[FetchableTopicResponse]
    node_endpoints: Array[FetchResponseNodeEndpoint] = field(versions="16+", tag=0, tagged="16+")
