"""EndTxn (26): commit or abort a transaction."""

from kohort.protocol.declaring import message
from kohort.protocol.schema import Bool, Int16, Int32, Int64, Message, String, field


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Message):
    """A transaction, and whether it is committed or aborted. Kafka: EndTxnRequest.json."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    committed: Bool


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    """The result, and the next producer id and epoch (KIP-890). Kafka: EndTxnResponse.json."""

    throttle_time_ms: Int32
    error_code: Int16
    producer_id: Int64 = field(default=-1, versions="5+", ignorable=True)
    producer_epoch: Int16 = field(default=-1, versions="5+", ignorable=True)
