"""AddOffsetsToTxn (25): add a group's offsets to a transaction."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Int16, Int32, Int64, Message, String


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Message):
    """A transaction and a group. Kafka: AddOffsetsToTxnRequest.json."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    group_id: String


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    """The result. Kafka: AddOffsetsToTxnResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
