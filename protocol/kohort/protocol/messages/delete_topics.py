"""DeleteTopics (20): delete topics by name or by id."""

from kohort.protocol.declaring import message, struct
from kohort.protocol.schema import Array, Int16, Int32, Message, NullableString, String, Uuid, field


@struct
class DeleteTopicState(Message):
    """One of `topics` in `DeleteTopicsRequest`."""

    name: NullableString = field(default=None, versions="6+")
    topic_id: Uuid = field(versions="6+")


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(Message):
    """Topics to delete. Kafka: DeleteTopicsRequest.json."""

    topics: Array[DeleteTopicState] = field(versions="6+")
    topic_names: Array[String] = field(versions="0-5", ignorable=True)
    timeout_ms: Int32


@struct
class DeletableTopicResult(Message):
    """One of `responses` in `DeleteTopicsResponse`."""

    name: NullableString = field(nullable="6+")
    topic_id: Uuid = field(versions="6+", ignorable=True)
    error_code: Int16
    error_message: NullableString = field(default=None, versions="5+", ignorable=True)


@message(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(Message):
    """The result of each topic. Kafka: DeleteTopicsResponse.json."""

    throttle_time_ms: Int32 = field(versions="1+", ignorable=True)
    responses: Array[DeletableTopicResult]
