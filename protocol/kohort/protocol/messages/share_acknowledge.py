"""ShareAcknowledge (79): acknowledge records of a share group (KIP-932)."""

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
    String,
    Uuid,
    field,
)


@struct
class ShareAcknowledgeBatch(Message):
    """`acknowledgement_batches` in `ShareAcknowledgePartition`."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: Array[Int8]


@struct
class ShareAcknowledgePartition(Message):
    """`partitions` in `ShareAcknowledgeTopic`."""

    partition_index: Int32
    acknowledgement_batches: Array[ShareAcknowledgeBatch]


@struct
class ShareAcknowledgeTopic(Message):
    """`topics` in `ShareAcknowledgeRequest`."""

    topic_id: Uuid
    partitions: Array[ShareAcknowledgePartition]


@message(api_key=79, versions="1-2", flexible="0+", max_items=MAX_PARTITIONS)
class ShareAcknowledgeRequest(Message):
    """Acknowledgements, without a fetch.

    `share_session_epoch` is -1 to close the session, else one more than the last.

    Kafka: ShareAcknowledgeRequest.json.
    """

    group_id: NullableString = field(default=None)
    member_id: NullableString
    share_session_epoch: Int32
    is_renew_ack: Bool = field(default=False, versions="2+")
    topics: Array[ShareAcknowledgeTopic]


@struct
class ShareAcknowledgeLeaderIdAndEpoch(Message):
    """`current_leader` in `ShareAcknowledgePartitionResponse`."""

    leader_id: Int32
    leader_epoch: Int32


@struct
class ShareAcknowledgePartitionResponse(Message):
    """`partitions` in `ShareAcknowledgeTopicResponse`."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    current_leader: ShareAcknowledgeLeaderIdAndEpoch


@struct
class ShareAcknowledgeTopicResponse(Message):
    """`responses` in `ShareAcknowledgeResponse`."""

    topic_id: Uuid
    partitions: Array[ShareAcknowledgePartitionResponse]


@struct
class ShareAcknowledgeNodeEndpoint(Message):
    """`node_endpoints` in `ShareAcknowledgeResponse`."""

    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = field(default=None)


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    """The result of each partition. Kafka: ShareAcknowledgeResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    acquisition_lock_timeout_ms: Int32 = field(versions="2+", ignorable=True)
    responses: Array[ShareAcknowledgeTopicResponse]
    node_endpoints: Array[ShareAcknowledgeNodeEndpoint]
