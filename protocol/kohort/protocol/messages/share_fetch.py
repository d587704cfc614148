"""ShareFetch (78): fetch records in a share group, and acknowledge others (KIP-932)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.limits import MAX_PARTITIONS
from kohort.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    NullableString,
    Records,
    String,
    Uuid,
    field,
)


@struct
class ShareFetchAcknowledgementBatch(Message):
    """`acknowledgement_batches` in `ShareFetchPartition`."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: Array[Int8]


@struct
class ShareFetchPartition(Message):
    """`partitions` in `ShareFetchTopic`."""

    partition_index: Int32
    acknowledgement_batches: Array[ShareFetchAcknowledgementBatch]


@struct
class ShareFetchTopic(Message):
    """`topics` in `ShareFetchRequest`."""

    topic_id: Uuid
    partitions: Array[ShareFetchPartition]


@struct
class ShareFetchForgottenTopic(Message):
    """`forgotten_topics_data` in `ShareFetchRequest`."""

    topic_id: Uuid
    partitions: Array[Int32]


@message(api_key=78, versions="1-2", flexible="0+", max_items=MAX_PARTITIONS)
class ShareFetchRequest(Message):
    """Partitions to fetch from, and acknowledgements of earlier records.

    `share_session_epoch` is 0 to open a session, -1 to close it, else one more than the last.

    Kafka: ShareFetchRequest.json.
    """

    group_id: NullableString = field(default=None)
    member_id: NullableString
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=2147483647)
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = field(default=0, versions="2+", ignorable=True)
    is_renew_ack: Bool = field(default=False, versions="2+")
    topics: Array[ShareFetchTopic]
    forgotten_topics_data: Array[ShareFetchForgottenTopic]


@struct
class ShareFetchLeaderIdAndEpoch(Message):
    """`current_leader` in `ShareFetchPartitionResponse`."""

    leader_id: Int32
    leader_epoch: Int32


@struct
class ShareFetchAcquired(Message):
    """`acquired_records` in `ShareFetchPartitionResponse`."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@struct
class ShareFetchPartitionResponse(Message):
    """`partitions` in `ShareFetchTopicResponse`."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    acknowledge_error_code: Int16
    acknowledge_error_message: NullableString = field(default=None)
    current_leader: ShareFetchLeaderIdAndEpoch
    records: Records = field(nullable="none")
    acquired_records: Array[ShareFetchAcquired]


@struct
class ShareFetchTopicResponse(Message):
    """`responses` in `ShareFetchResponse`."""

    topic_id: Uuid
    partitions: Array[ShareFetchPartitionResponse]


@struct
class ShareFetchNodeEndpoint(Message):
    """`node_endpoints` in `ShareFetchResponse`."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = field(default=None)


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchResponse(Message):
    """Record batches, the acquired records, and the results of acknowledgements.

    Kafka: ShareFetchResponse.json.
    """

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    acquisition_lock_timeout_ms: Int32
    responses: Array[ShareFetchTopicResponse]
    node_endpoints: Array[ShareFetchNodeEndpoint]
