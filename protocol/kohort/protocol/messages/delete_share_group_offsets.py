"""DeleteShareGroupOffsets (92): delete an empty share group's offsets of topics (KIP-932)."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int16, Int32, Message, NullableString, String, Uuid, field


@struct
class DeleteShareGroupOffsetsTopic(Message):
    """`topics` in `DeleteShareGroupOffsetsRequest`."""

    topic_name: String


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    """The topics whose offsets are deleted. Kafka: DeleteShareGroupOffsetsRequest.json."""

    group_id: String
    topics: Array[DeleteShareGroupOffsetsTopic]


@struct
class DeleteShareGroupOffsetsResponseTopic(Message):
    """`responses` in `DeleteShareGroupOffsetsResponse`."""

    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: NullableString = field(default=None)


@message(api_key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    """The result of each topic. Kafka: DeleteShareGroupOffsetsResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    error_message: NullableString = field(default=None)
    responses: Array[DeleteShareGroupOffsetsResponseTopic]
